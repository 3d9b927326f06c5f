/** Token ids that an attacker takes for a position's, the likeliest first. */
export type TokenGuess = readonly number[]

/** As many as are counted. */
export const guessCount = 10
