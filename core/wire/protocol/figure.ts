import type { z } from 'zod'

/** Marks a figure in the JSON schema: messages may leave it out, responses have it as null. */
export const nullIfAbsent = 'nullIfAbsent'
export const figure = <T extends z.ZodType>(type: T) =>
  type
    .nullable()
    .default(null)
    .meta({ [nullIfAbsent]: true })
