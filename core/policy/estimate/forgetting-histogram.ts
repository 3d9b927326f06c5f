import type { Distribution } from './distribution.ts'

/** The bins of a histogram: two that are merged have the same. */
export interface HistogramLayout {
  /** Smaller values share one bin. */
  readonly min: number
  /** Greater values count as this one. */
  readonly max: number
  /** Bins between a value and its double. */
  readonly perOctave: number
  /** Samples after which one counts half. */
  readonly halfLife: number
}

/** A histogram in tens of numbers, each with three significant digits. */
export interface HistogramWire {
  /** Samples that it stands for, older ones counting less. */
  readonly weight: number
  /** At `wireLevels`, ascending. */
  readonly quantiles: readonly number[]
}

/** Levels of a histogram's quantiles on the wire: even steps, and more of the tail, from which waiting times are taken. */
export const wireLevels: readonly number[] = [
  ...Array.from({ length: 19 }, (_, step) => step / 20),
  ...[0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 1],
]

/** The unit weight at which all weights are scaled back, and the part of it below which a bin is forgotten. */
const maxUnit = 2 ** 64
const minShare = 2 ** -32

/**
 * A distribution that is learned sample by sample and forgets old ones, mutable. It counts samples in bins of equal ratio; in a
 * bin they are spread evenly between the smallest and the largest one, so that a value that always recurs stays a step. Its size
 * does not depend on the number of samples, nor does the time of a sample (O(1)) or a question (O(bins)).
 *
 * Forgetting is by samples, not by time, so that no clock can spoil it: each sample weighs a little more than the one before
 * (forward decay, Cormode et al. 2009). DDSketch (@datadog/sketches-js) has the same bins, merges, and gives quantiles, but
 * neither forgets nor tells F or the sums of values, on which waiting times and thresholds depend.
 */
export class ForgettingHistogram implements Distribution {
  readonly #layout: HistogramLayout
  readonly #growth: number
  /** Per bin: weight, sum of weight · value, smallest and largest value. */
  readonly #weights: Float64Array
  readonly #sums: Float64Array
  readonly #lows: Float64Array
  readonly #highs: Float64Array
  /** Weight of the next sample. */
  #unit = 1
  #weight = 0
  #sum = 0

  constructor(layout: HistogramLayout) {
    const bins = Math.ceil(Math.log2(layout.max / layout.min) * layout.perOctave) + 2
    this.#layout = layout
    this.#growth = 2 ** (1 / layout.halfLife)
    this.#weights = new Float64Array(bins)
    this.#sums = new Float64Array(bins)
    this.#lows = new Float64Array(bins).fill(Number.POSITIVE_INFINITY)
    this.#highs = new Float64Array(bins)
  }

  /** @returns undefined if it is no histogram */
  static fromWire(layout: HistogramLayout, { weight, quantiles }: HistogramWire): ForgettingHistogram | undefined {
    const ascends = quantiles.every((value, i) => value >= (quantiles[i - 1] ?? 0))
    if (!(weight >= 0) || quantiles.length !== wireLevels.length || !ascends) return
    const histogram = new ForgettingHistogram(layout)
    // Not more than a histogram ever stands for: the sender may be wrong.
    const ownWeight = Math.min(weight, 1 / (histogram.#growth - 1))
    const values = quantiles.map((value) => Math.min(value, layout.max))
    for (let i = 1; i < values.length; i += 1) {
      const share = (wireLevels[i] ?? 1) - (wireLevels[i - 1] ?? 0)
      histogram.#spread(values[i - 1] ?? 0, values[i] ?? 0, share * ownWeight)
    }
    return histogram
  }

  /** Undefined before the first sample. */
  toWire(): HistogramWire | undefined {
    if (this.#weight === 0) return undefined
    const quantiles = wireLevels.map((level) => rounded(this.quantile(Math.max(level, Number.EPSILON))))
    return { weight: rounded(this.weight), quantiles }
  }

  /** Samples that it stands for, older ones counting less. */
  get weight(): number {
    return this.#weight / this.#unit
  }

  /** 0 before the first sample. */
  get mean(): number {
    return this.#weight === 0 ? 0 : this.#sum / this.#weight
  }

  /** @param value anything but a finite number ≥ 0 is left out: a clock may have jumped */
  record(value: number): void {
    if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) return
    const counted = Math.min(value, this.#layout.max)
    this.#add(this.#binOf(counted), this.#unit, counted * this.#unit, counted, counted)
    this.#age()
  }

  /**
   * Records a sample of which only a lower bound is known: what was waited for was given up. It is spread over all greater values
   * as other samples are (redistribution to the right, Efron 1967); without them it counts as twice the bound, the median of what
   * follows in a heavy tail: less would never reach a tail that is always given up.
   * @param others of the same layout; absent: the samples so far
   */
  recordAtLeast(bound: number, others: ForgettingHistogram = this): void {
    const above = bound >= 0 ? others.#weightAbove(bound) : 0
    if (above === 0) {
      this.record(2 * bound)
      return
    }
    const growth = this.#unit / above
    for (let bin = this.#binOf(bound); bin < this.#weights.length; bin += 1) {
      const weight = others.#weights[bin] ?? 0
      const [low, high] = [others.#lows[bin] ?? 0, others.#highs[bin] ?? 0]
      if (weight === 0 || high <= bound) continue
      const part = growth * (1 - shareBelow(bound, low, high))
      const sum = low > bound ? part * (others.#sums[bin] ?? 0) : (part * weight * (bound + high)) / 2
      this.#add(bin, part * weight, sum, Math.max(low, bound), high)
    }
    this.#age()
  }

  /** Adds the samples of another histogram, as old as its own are. @param other of the same layout */
  merge(other: ForgettingHistogram): void {
    const scale = this.#unit / other.#unit
    for (const [bin, weight] of other.#weights.entries())
      if (weight > 0) {
        const [low, high] = [other.#lows[bin] ?? 0, other.#highs[bin] ?? 0]
        this.#add(bin, weight * scale, (other.#sums[bin] ?? 0) * scale, low, high)
      }
  }

  /**
   * The next sample by n earlier ones: it is greater than the k-th of them with probability 1 − k / (n + 1), as each of the n + 1 is
   * as likely to come last. So a few samples do not make the tail look shorter than it is. Quantiles beyond all samples are twice the
   * greatest one: finite, as a time to wait must be.
   */
  get predictive(): Distribution {
    return { cdf: (x) => this.#cdf(x, this.#unit), quantile: (q) => this.#quantile(q, this.#unit) }
  }

  cdf(x: number): number {
    return this.#cdf(x, 0)
  }

  quantile(q: number): number {
    return this.#quantile(q, 0)
  }

  /** E[X − x | X > x]; 0 where no sample exceeds x. */
  meanResidual(x: number): number {
    let above = 0
    let excess = 0
    for (const [bin, weight] of this.#weights.entries()) {
      const [low, high] = [this.#lows[bin] ?? 0, this.#highs[bin] ?? 0]
      if (weight === 0 || high <= x) continue
      if (low > x) {
        above += weight
        excess += (this.#sums[bin] ?? 0) - x * weight
      } else {
        const part = weight * (1 - shareBelow(x, low, high))
        above += part
        excess += (part * (high - x)) / 2
      }
    }
    return above === 0 ? 0 : excess / above
  }

  /**
   * Shares of the sum of all values: of smaller values, and of values in the bin of the given one. Before the first sample all
   * values are like it.
   */
  sharesAt(value: number): { readonly smaller: number; readonly alike: number } {
    if (this.#sum === 0) return { smaller: 0, alike: 1 }
    const bin = this.#binOf(value)
    let smaller = 0
    for (let i = 0; i < bin; i += 1) smaller += this.#sums[i] ?? 0
    return { smaller: smaller / this.#sum, alike: (this.#sums[bin] ?? 0) / this.#sum }
  }

  /** @param unseen weight of what is greater than all samples */
  #cdf(x: number, unseen: number): number {
    if (x === Number.POSITIVE_INFINITY) return 1
    if (this.#weight === 0 || x < 0) return 0
    const bin = this.#binOf(x)
    let below = 0
    for (let i = 0; i < bin; i += 1) below += this.#weights[i] ?? 0
    const own = this.#weights[bin] ?? 0
    if (own > 0) below += own * shareBelow(x, this.#lows[bin] ?? 0, this.#highs[bin] ?? 0)
    return Math.min(below / (this.#weight + unseen), 1)
  }

  #quantile(q: number, unseen: number): number {
    if (q <= 0) return 0
    if (this.#weight === 0) return Number.POSITIVE_INFINITY
    const target = q * (this.#weight + unseen)
    let below = 0
    let highest = 0
    for (let bin = 0; bin < this.#weights.length; bin += 1) {
      const weight = this.#weights[bin] ?? 0
      if (weight === 0) continue
      const low = this.#lows[bin] ?? 0
      highest = this.#highs[bin] ?? 0
      if (below + weight >= target) return low + (highest - low) * Math.max((target - below) / weight, 0)
      below += weight
    }
    return unseen > 0 ? 2 * highest : highest
  }

  #binOf(value: number): number {
    const { min, perOctave } = this.#layout
    if (value < min) return 0
    return Math.min(1 + Math.floor(Math.log2(value / min) * perOctave), this.#weights.length - 1)
  }

  #weightAbove(x: number): number {
    let above = 0
    for (let bin = this.#binOf(x); bin < this.#weights.length; bin += 1) {
      const weight = this.#weights[bin] ?? 0
      if (weight > 0) above += weight * (1 - shareBelow(x, this.#lows[bin] ?? 0, this.#highs[bin] ?? 0))
    }
    return above
  }

  #add(bin: number, weight: number, sum: number, low: number, high: number): void {
    this.#weights[bin] = (this.#weights[bin] ?? 0) + weight
    this.#sums[bin] = (this.#sums[bin] ?? 0) + sum
    this.#lows[bin] = Math.min(this.#lows[bin] ?? low, low)
    this.#highs[bin] = Math.max(this.#highs[bin] ?? high, high)
    this.#weight += weight
    this.#sum += sum
  }

  /** Adds weight evenly between two values. */
  #spread(low: number, high: number, weight: number): void {
    const last = this.#binOf(high)
    let from = low
    for (let bin = this.#binOf(low); bin <= last; bin += 1) {
      const to = bin === last ? high : Math.max(this.#startOf(bin + 1), from)
      const part = high === low ? weight : weight * ((to - from) / (high - low))
      if (part > 0) this.#add(bin, part, (part * (from + to)) / 2, from, to)
      from = to
    }
  }

  /** The smallest value of a bin above the first. */
  #startOf(bin: number): number {
    return this.#layout.min * 2 ** ((bin - 1) / this.#layout.perOctave)
  }

  /** The next sample weighs more. */
  #age(): void {
    this.#unit *= this.#growth
    if (this.#unit > maxUnit) this.#scaleBack()
  }

  #scaleBack(): void {
    const scale = 1 / this.#unit
    this.#unit = 1
    this.#weight = 0
    this.#sum = 0
    for (const [bin, weight] of this.#weights.entries()) {
      const isForgotten = weight * scale < minShare
      this.#weights[bin] = isForgotten ? 0 : weight * scale
      this.#sums[bin] = isForgotten ? 0 : (this.#sums[bin] ?? 0) * scale
      if (isForgotten) {
        this.#lows[bin] = Number.POSITIVE_INFINITY
        this.#highs[bin] = 0
      }
      this.#weight += this.#weights[bin] ?? 0
      this.#sum += this.#sums[bin] ?? 0
    }
  }
}

const shareBelow = (x: number, low: number, high: number): number => {
  if (x >= high) return 1
  return x <= low ? 0 : (x - low) / (high - low)
}

const rounded = (value: number): number => Number(value.toPrecision(3))
