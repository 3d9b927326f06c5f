import { z } from 'zod'

const positive = z.number().positive()

/**
 * What long work does to a board's speed: the share of full speed that is left once it is hot (1: its cooling suffices), and seconds of
 * work after which it has lost 63 % of what it loses, and of rest after which it has regained as much.
 */
export const throttlingSchema = z.strictObject({ sustained: positive.max(1), timeConstantS: positive })
export type Throttling = z.output<typeof throttlingSchema>
export const noThrottling: Throttling = { sustained: 1, timeConstantS: 300 }

/** How hot a board is: work heats it, rest cools it, both by Newton's law. Mutable. */
export class Heat {
  readonly #throttling: Throttling
  /** 0: cold; 1: as hot as it gets. */
  #share = 0

  constructor(throttling: Throttling) {
    this.#throttling = throttling
  }

  /** How much longer work takes than on a cold board, >= 1. */
  get slowdown(): number {
    return 1 / (1 - (1 - this.#throttling.sustained) * this.#share)
  }

  worked(seconds: number): void {
    this.#share = 1 - (1 - this.#share) * Math.exp(-seconds / this.#throttling.timeConstantS)
  }

  rested(seconds: number): void {
    this.#share *= Math.exp(-seconds / this.#throttling.timeConstantS)
  }
}
