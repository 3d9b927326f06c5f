/** A text may have this many times the tokens that it was asked to have, and these more: then it is cut off. */
const maxExcess = { factor: 3, tokens: 64 }

/** Where a reply is cut off that was asked to have so many tokens. */
export const maxReplyTokens = (tokens: number): number => maxExcess.factor * tokens + maxExcess.tokens
