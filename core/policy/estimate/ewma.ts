/** α of HAT Eq. 1 and 2, and the default everywhere: the weight of the past. */
export const defaultAlpha = 0.8

/** Exponentially weighted moving average, mutable: value ← α · value + (1 − α) · sample; the first sample counts whole. */
export class Ewma {
  readonly #alpha: number
  #value: number | undefined

  /** @param alpha weight of the past, 0..1 */
  constructor(alpha = defaultAlpha) {
    this.#alpha = alpha
  }

  /** Undefined before the first sample. */
  get value(): number | undefined {
    return this.#value
  }

  record(sample: number): void {
    this.#value = this.#value === undefined ? sample : this.#alpha * this.#value + (1 - this.#alpha) * sample
  }

  /** One sample counts for at most `cap` times the average: an outlier must not pass for a change. */
  recordCapped(sample: number, cap: number): void {
    this.record(this.#value === undefined ? sample : Math.min(sample, cap * this.#value))
  }
}

export function smooth(past: number | undefined, now: number): number {
  return past === undefined ? now : defaultAlpha * past + (1 - defaultAlpha) * now
}
