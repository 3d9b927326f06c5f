/** Ratio of the ends of a bucket: quantiles are exact to half a percent. */
const growth = 1.01
/** Smaller values count as 0. */
const smallest = 1e-3
const largest = 1e9
const buckets = Math.ceil(Math.log(largest / smallest) / Math.log(growth)) + 2
const perLog = 1 / Math.log(growth)

/** What is shown of many values. NaN where there was none. */
export interface Statistics {
  readonly count: number
  readonly mean: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

/** Counts values >= 0 in buckets of equal ratio: its memory does not grow with them. Mean and maximum are exact. Mutable. */
export class LogHistogram {
  #counts: Float64Array | undefined
  #count = 0
  #sum = 0
  #max = Number.NEGATIVE_INFINITY

  /** @param times how often; >= 0 */
  add(value: number, times = 1): void {
    if (!(times > 0)) return
    this.#counts ??= new Float64Array(buckets)
    this.#counts[bucketOf(value)]! += times
    this.#count += times
    this.#sum += value * times
    if (value > this.#max) this.#max = value
  }

  /** Counts what another one has counted. */
  merge(other: LogHistogram): void {
    if (!other.#counts) return
    this.#counts ??= new Float64Array(buckets)
    for (const [bucket, count] of other.#counts.entries()) this.#counts[bucket]! += count
    this.#count += other.#count
    this.#sum += other.#sum
    this.#max = Math.max(this.#max, other.#max)
  }

  quantile(share: number): number {
    if (!this.#counts) return Number.NaN
    let left = share * this.#count
    for (const [bucket, count] of this.#counts.entries()) {
      left -= count
      if (count > 0 && left <= 0) return Math.min(this.#max, middleOf(bucket))
    }
    return this.#max
  }

  get statistics(): Statistics {
    const mean = this.#count === 0 ? Number.NaN : this.#sum / this.#count
    const max = this.#count === 0 ? Number.NaN : this.#max
    const [p50, p95, p99] = [this.quantile(0.5), this.quantile(0.95), this.quantile(0.99)]
    return { count: this.#count, mean, p50, p95, p99, max }
  }
}

function bucketOf(value: number): number {
  if (!(value > smallest)) return 0
  return Math.min(buckets - 1, 1 + Math.floor(Math.log(value / smallest) * perLog))
}

/** Geometric. */
const middleOf = (bucket: number): number => (bucket === 0 ? 0 : smallest * growth ** (bucket - 0.5))
