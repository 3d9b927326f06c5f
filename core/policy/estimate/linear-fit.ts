/** y = slope · x + intercept, both ≥ 0. */
export interface Line {
  readonly slope: number
  readonly intercept: number
}

/** Least squares that forget: each sample counts `decay` times as much as the one after it. Mutable. */
export class LinearFit {
  readonly #decay: number
  #weight = 0
  #x = 0
  #y = 0
  #xx = 0
  #xy = 0

  /** @param halfLife samples after which one counts half */
  constructor(halfLife: number) {
    this.#decay = 2 ** (-1 / halfLife)
  }

  /** @param sums as of `toWire`. @returns undefined if they are none */
  static fromWire(halfLife: number, sums: readonly number[]): LinearFit | undefined {
    const [weight, x, y, xx, xy] = sums
    if (weight === undefined || x === undefined || y === undefined || xx === undefined || xy === undefined) return undefined
    const fit = new LinearFit(halfLife)
    fit.#weight = weight
    fit.#x = x
    fit.#y = y
    fit.#xx = xx
    fit.#xy = xy
    return fit
  }

  /** Sums of weights, x, y, x² and x·y: all that it knows. */
  toWire(): readonly number[] {
    return [this.#weight, this.#x, this.#y, this.#xx, this.#xy]
  }

  record(x: number, y: number): void {
    if (!(x >= 0 && y >= 0 && x < Number.POSITIVE_INFINITY && y < Number.POSITIVE_INFINITY)) return
    this.#weight = this.#weight * this.#decay + 1
    this.#x = this.#x * this.#decay + x
    this.#y = this.#y * this.#decay + y
    this.#xx = this.#xx * this.#decay + x * x
    this.#xy = this.#xy * this.#decay + x * y
  }

  /** 0 before the first sample. */
  get meanX(): number {
    return this.#weight > 0 ? this.#x / this.#weight : 0
  }

  /** Undefined before there are samples of different x. */
  get slope(): number | undefined {
    const { meanX } = this
    const variance = this.#xx / this.#weight - meanX ** 2
    return variance > 1e-9 * meanX ** 2 ? (this.#xy / this.#weight - (meanX * this.#y) / this.#weight) / variance : undefined
  }

  /** Σy / Σx; undefined before the first sample with x > 0. */
  get ratio(): number | undefined {
    return this.#x > 0 ? this.#y / this.#x : undefined
  }

  /** Undefined before the first sample. Samples of one x alone lie on a line through 0. */
  get line(): Line | undefined {
    if (this.#weight === 0) return undefined
    const [meanX, meanY] = [this.meanX, this.#y / this.#weight]
    const slope = this.slope ?? Number.POSITIVE_INFINITY
    if (slope < 0) return { slope: 0, intercept: meanY }
    const intercept = meanY - slope * meanX
    if (intercept >= 0) return { slope, intercept }
    return this.#xx === 0 ? { slope: 0, intercept: meanY } : { slope: this.#xy / this.#xx, intercept: 0 }
  }
}
