/** Tokens that are added per second, and the number at which the bucket is full. */
export interface Rate {
  readonly perS: number
  readonly burst: number
}

/**
 * Limits a rate. What is spent beyond the tokens present is a debt: nothing more may be spent until it is paid, so that a
 * caller is slowed and nothing is refused. Mutable; the time is passed in.
 */
export class TokenBucket {
  readonly #rate: Rate
  #tokens: number
  #atMs: number

  constructor(rate: Rate, nowMs: number) {
    this.#rate = rate
    this.#tokens = rate.burst
    this.#atMs = nowMs
  }

  /** @returns ms until more may be spent; 0: at once */
  spend(count: number, nowMs: number): number {
    const { perS, burst } = this.#rate
    const refilled = this.#tokens + (Math.max(0, nowMs - this.#atMs) / 1_000) * perS
    this.#tokens = Math.min(burst, refilled) - count
    this.#atMs = nowMs
    return this.#tokens >= 0 ? 0 : (-this.#tokens / perS) * 1_000
  }
}
