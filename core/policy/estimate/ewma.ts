/** α of HAT Eq. 1 and 2, and the default everywhere: the weight of the past. */
export const defaultAlpha = 0.8

/** Exponentially weighted moving average, mutable: value ← α · value + (1 − α) · sample. The first sample counts whole. */
export class Ewma {
  readonly #alpha: number
  #value: number | undefined

  /** @param alpha weight of the past, 0..1 */
  constructor(alpha = defaultAlpha, value?: number) {
    this.#alpha = alpha
    this.#value = value
  }

  /** Undefined before the first sample. */
  get value(): number | undefined {
    return this.#value
  }

  /** @param outlierCap a sample counts for at most this many times the average: so that one outlier does not look like a change */
  record(sample: number, outlierCap = Number.POSITIVE_INFINITY): void {
    const past = this.#value
    // A cap relative to an average of 0 would keep it at 0.
    const capped = past === undefined || past === 0 ? sample : Math.min(sample, outlierCap * past)
    this.#value = past === undefined ? capped : this.#alpha * past + (1 - this.#alpha) * capped
  }

  copy(): Ewma {
    return new Ewma(this.#alpha, this.#value)
  }
}
