import { z } from 'zod'

/**
 * One of some words, in a response. A newer bridge may send other words: a reader accepts any, although the type names only
 * those that this release sends.
 */
export const openEnum = <const Word extends string>(words: readonly Word[]): z.ZodType<Word> =>
  z.string().meta({ enum: words }) as unknown as z.ZodType<Word>
