/** Tokens per second that a reader may state: slower ones would be read for weeks, and a faster client does not read along. */
export const readerRates = { min: 0.001, max: 10_000 } as const
