import { quantile } from './quantile.ts'

/** Quantiles of the latest samples, mutable. */
export class RecentQuantiles {
  readonly #limit: number
  /** A ring: the oldest sample is overwritten. */
  readonly #samples: number[] = []
  #next = 0

  /** @param limit samples that count */
  constructor(limit: number) {
    this.#limit = limit
  }

  get count(): number {
    return this.#samples.length
  }

  record(sample: number): void {
    this.#samples[this.#next] = sample
    this.#next = (this.#next + 1) % this.#limit
  }

  /** @param q 0..1 @returns null before the first sample */
  at(q: number): number | null {
    return this.#samples.length === 0 ? null : quantile(this.#samples, q)
  }
}
