import { z } from 'zod'

// Kinds of values that many settings, options and limits have.

export const nonEmpty = z.string().min(1)

/** A whole number. @param standard its default */
export const whole = (min: number, standard: number) => z.int().min(min).default(standard)

/** More than none. @param standard its default */
export const positive = (standard: number) => z.number().positive().default(standard)

/** @param standard its default */
export const nonNegative = (standard: number) => z.number().min(0).default(standard)

/** An option that is off where it is not given. */
export const off = z.boolean().default(false)

/** One that is on, unless `--no-…` is given. */
export const on = z.boolean().default(true)

/** Scheme, host and port of a web page. */
export const WebOrigin = z
  .string()
  .refine((text) => URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text, {
    error: 'must be an origin like https://chat.example.org, without a path',
  })
