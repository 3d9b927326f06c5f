import { z } from 'zod'

/** Tokens per second that a reader may state: slower ones would be read for weeks, and a faster client is no reader. */
export const readerRates = { min: 0.001, max: 10_000 } as const

/** A reader's rate, or 0 for one that takes tokens as fast as they come. */
export const ReaderRate = z.number().refine((rate) => rate === 0 || (rate >= readerRates.min && rate <= readerRates.max), {
  error: `must be 0, or a number from ${readerRates.min} to ${readerRates.max}`,
})

/** As a number above 0, which schedulers of tokens need. */
export const drainRate = (tokensPerS: number | undefined): number | undefined => (tokensPerS === 0 ? readerRates.max : tokensPerS)
