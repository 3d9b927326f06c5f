import { defaultAlpha, Ewma } from './ewma.ts'

/** One point of a curve; x > 0, y >= 0. */
export interface Knot {
  readonly x: number
  readonly y: number
}

/** The averages of the samples whose x fall into one bucket. */
interface Bucket {
  readonly x: Ewma
  readonly y: Ewma
  /** Samples behind the averages, up to `maxWeight`. */
  readonly weight: number
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
  readonly #buckets = new Map<number, Bucket>()
  #knots: readonly Knot[] | undefined

  /** @param alpha weight of the past, 0..1 */
  constructor(alpha = defaultAlpha) {
    this.#alpha = alpha
  }

  /** @throws RangeError unless x > 0 and y >= 0, both finite */
  record(x: number, y: number): void {
    if (!(x > 0 && y >= 0 && Number.isFinite(x + y))) throw new RangeError(`no sample of a rising curve: x ${x}, y ${y}`)
    const key = Math.round(Math.log(x) / Math.log(bucketRatio))
    const bucket = this.#buckets.get(key) ?? { x: new Ewma(this.#alpha), y: new Ewma(this.#alpha), weight: 0 }
    bucket.x.record(x)
    bucket.y.record(y, outlierCap)
    this.#buckets.set(key, { ...bucket, weight: Math.min(maxWeight, bucket.weight + 1) })
    this.#knots = undefined
  }

  /** Ascending x, never falling y; empty before the first sample. */
  knots(): readonly Knot[] {
    this.#knots ??= isotonic([...this.#buckets].sort(([a], [b]) => a - b).map(([, bucket]) => bucket))
    return this.#knots
  }

  /** y(x): constant before the first knot, past the last along its last line; 0 before the first sample. */
  at(x: number): number {
    return valueAt(this.knots(), x)
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
  readonly weightedY: number
  readonly weight: number
  readonly members: readonly Bucket[]
}

/** The never-falling values nearest to the buckets', in the weighted least-squares sense: pool adjacent violators. */
function isotonic(buckets: readonly Bucket[]): Knot[] {
  const pools: Pool[] = []
  const mean = ({ weightedY, weight }: Pool) => weightedY / weight
  for (const bucket of buckets) {
    let pool: Pool = { weightedY: bucket.y.value! * bucket.weight, weight: bucket.weight, members: [bucket] }
    for (let before = pools.at(-1); before && mean(before) > mean(pool); before = pools.at(-1)) {
      const { weightedY, weight, members } = before
      pool = { weightedY: weightedY + pool.weightedY, weight: weight + pool.weight, members: [...members, ...pool.members] }
      pools.pop()
    }
    pools.push(pool)
  }
  return pools.flatMap((pool) => pool.members.map(({ x }) => ({ x: x.value!, y: mean(pool) })))
}
