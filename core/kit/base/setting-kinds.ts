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

const secondsOf = { m: 60, h: 3_600, d: 86_400 } as const

/** A time as 30m, 24h or 7d, in seconds. */
export const Duration = z
  .string()
  .regex(/^[1-9]\d{0,5}[mhd]$/, 'must be a number with m, h or d, such as 30m, 24h or 7d')
  .transform((text) => Number.parseInt(text, 10) * secondsOf[text.at(-1) as keyof typeof secondsOf])

/** Scheme, host and port of a web page. */
export const WebOrigin = z
  .string()
  .refine((text) => URL.canParse(text) && /^https?:/.test(text) && new URL(text).origin === text, {
    error: 'must be an origin like https://chat.example.org, without a path',
  })
