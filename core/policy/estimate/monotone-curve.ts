import { defaultAlpha, Ewma } from './ewma.ts'

/** One point of a curve; x > 0, y >= 0. */
export interface Knot {
  readonly x: number
  readonly y: number
}

/** The averages of the samples whose x fall into one bucket. */
interface Bucket {
  readonly key: number
  readonly x: Ewma
  readonly y: Ewma
  /** Samples behind the averages, up to `maxWeight`. */
  weight: number
}

/** More samples add no weight: an exponential average has forgotten the older ones. */
const maxWeight = 20
/** A sample counts for at most this many times its bucket's average. */
const outlierCap = 2
/** Buckets are powers of this ratio: 4 from one x to its double. */
const bucketRatio = 2 ** 0.25

/**
 * A rising curve y(x) learned from samples, mutable: one exponential average per bucket of x, straight lines between
 * them. Where noise makes the curve fall, neighbours are averaged by their weights (isotonic regression).
 */
export class MonotoneCurve {
  readonly #alpha: number
  /** Ascending by their keys. */
  readonly #buckets: Bucket[] = []
  #knots: readonly Knot[] | undefined

  /** @param alpha weight of the past, 0..1 */
  constructor(alpha = defaultAlpha) {
    this.#alpha = alpha
  }

  /** @throws RangeError unless x > 0 and y >= 0, both finite */
  record(x: number, y: number): void {
    if (!(x > 0 && y >= 0 && Number.isFinite(x + y))) throw new RangeError(`no sample of a rising curve: x ${x}, y ${y}`)
    const key = Math.round(Math.log(x) / Math.log(bucketRatio))
    const bucket = this.#bucketOf(key)
    bucket.x.record(x)
    bucket.y.record(y, outlierCap)
    bucket.weight = Math.min(maxWeight, bucket.weight + 1)
    this.#knots = undefined
  }

  /** Ascending x, never falling y; empty before the first sample. */
  knots(): readonly Knot[] {
    this.#knots ??= isotonic(this.#buckets)
    return this.#knots
  }

  /** y(x): constant before the first knot, past the last along its last line; 0 before the first sample. */
  at(x: number): number {
    return valueAt(this.knots(), x)
  }

  #bucketOf(key: number): Bucket {
    const buckets = this.#buckets
    let at = buckets.length
    while (at > 0 && buckets[at - 1]!.key >= key) at -= 1
    const found = buckets[at]
    if (found?.key === key) return found
    const bucket = { key, x: new Ewma(this.#alpha), y: new Ewma(this.#alpha), weight: 0 }
    buckets.splice(at, 0, bucket)
    return bucket
  }
}

/** The straight lines through some knots (ascending x), read at x. */
export function valueAt(knots: readonly Knot[], x: number): number {
  const [first] = knots
  const last = knots.at(-1)
  if (!first || !last) return 0
  if (x <= first.x) return first.y
  if (x > last.x) return last.y + (x - last.x) * lastSlope(knots)
  const right = knots.findIndex((knot) => knot.x >= x)
  const [a, b] = [knots[right - 1]!, knots[right]!]
  return a.y + ((b.y - a.y) * (x - a.x)) / (b.x - a.x)
}

/** Of the line past the last knot. One knot alone has no slope: y is taken as proportional to x. */
function lastSlope(knots: readonly Knot[]): number {
  const [before, last] = [knots.at(-2), knots.at(-1)!]
  return before ? (last.y - before.y) / (last.x - before.x) : last.y / last.x
}

/** Neighbouring buckets with one y. */
interface Pool {
  weightedY: number
  weight: number
  count: number
}

/** The never-falling values nearest to the buckets', in the weighted least-squares sense: pool adjacent violators. */
function isotonic(buckets: readonly Bucket[]): Knot[] {
  const pools: Pool[] = []
  const mean = ({ weightedY, weight }: Pool) => weightedY / weight
  for (const { y, weight } of buckets) {
    const pool = { weightedY: y.value! * weight, weight, count: 1 }
    for (let before = pools.at(-1); before && mean(before) > mean(pool); before = pools.at(-1)) {
      pool.weightedY += before.weightedY
      pool.weight += before.weight
      pool.count += before.count
      pools.pop()
    }
    pools.push(pool)
  }
  const knots: Knot[] = []
  for (const pool of pools)
    for (let left = pool.count; left > 0; left -= 1) knots.push({ x: buckets[knots.length]!.x.value!, y: mean(pool) })
  return knots
}
