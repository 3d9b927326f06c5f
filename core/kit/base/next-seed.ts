import { randomInt } from 'node:crypto'

const seedBound = 2 ** 32

/** A seed for an answer or a generator whose requester names none. */
export const nextSeed = () => randomInt(seedBound)
