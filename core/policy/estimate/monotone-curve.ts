import { smooth } from './ewma.ts'

/** One point of a delay curve. */
export interface Knot {
  /** Tokens of a step, > 0. */
  readonly tokens: number
  /** Seconds that such a step takes, >= 0. */
  readonly delayS: number
}

/** A bucket's knot, and how many steps stand behind it, up to a limit. */
interface Bucket extends Knot {
  readonly steps: number
}

/** So many steps say as much as more would: older ones have been smoothed away. */
const mostSteps = 20
/** A step counts as no longer than so many times what its bucket's took before: a machine has hiccups. */
const hiccup = 2

/** Delays are remembered by the power of this ratio that a step's tokens fall under: 4 buckets from one double to the next. */
const bucketRatio = 2 ** 0.25

/**
 * g of HAT Eq. 2: the predicted delay of a cloud step by its tokens. The paper smooths one number; a delay depends on
 * the tokens, so this keeps one exponential average per bucket of tokens and reads between them in straight lines. More
 * tokens never take less time: where noise says so, neighbours are averaged, each by the steps behind it (isotonic
 * regression).
 */
export class MonotoneCurve {
  readonly #buckets = new Map<number, Bucket>()
  #knots: readonly Knot[] | undefined

  /** A step of so many tokens took so long. @throws RangeError when either is no such number */
  record(tokens: number, delayS: number): void {
    if (!(tokens > 0 && delayS >= 0 && Number.isFinite(tokens + delayS)))
      throw new RangeError(`a step of ${tokens} tokens in ${delayS} s`)
    const bucket = Math.round(Math.log(tokens) / Math.log(bucketRatio))
    const before = this.#buckets.get(bucket)
    this.#buckets.set(bucket, {
      tokens: smooth(before?.tokens, tokens),
      delayS: smooth(before?.delayS, before && before.delayS > 0 ? Math.min(delayS, hiccup * before.delayS) : delayS),
      steps: Math.min(mostSteps, 1 + (before?.steps ?? 0)),
    })
    this.#knots = undefined
  }

  /** What is known, by tokens, delays never falling; empty before the first step. */
  knots(): readonly Knot[] {
    this.#knots ??= isotonic([...this.#buckets.entries()].sort(([a], [b]) => a - b).map(([, knot]) => knot))
    return this.#knots
  }

  /** g(tokens) in seconds: flat before the first knot, past the last along its last line; 0 while nothing is known. */
  delayS(tokens: number): number {
    return delayAt(this.knots(), tokens)
  }
}

/** The straight lines through some knots (ascending tokens and delays), read at `tokens`. */
export function delayAt(knots: readonly Knot[], tokens: number): number {
  const [first] = knots
  const last = knots.at(-1)
  if (!first || !last) return 0
  if (tokens <= first.tokens) return first.delayS
  if (tokens > last.tokens) return last.delayS + (tokens - last.tokens) * lastSlope(knots)
  const right = knots.findIndex((knot) => knot.tokens >= tokens)
  const [a, b] = [knots[right - 1]!, knots[right]!]
  return a.delayS + ((b.delayS - a.delayS) * (tokens - a.tokens)) / (b.tokens - a.tokens)
}

/** Seconds per token past the last knot. One knot alone says nothing of a slope: then every token costs its share. */
function lastSlope(knots: readonly Knot[]): number {
  const [before, last] = [knots.at(-2), knots.at(-1)!]
  return before ? (last.delayS - before.delayS) / (last.tokens - before.tokens) : last.delayS / last.tokens
}

interface Pool {
  /** Of all steps behind its members. */
  readonly sumS: number
  readonly steps: number
  readonly members: readonly Bucket[]
}

/** The nearest never-falling delays in the least-squares sense, step by step: pools neighbours that violate the order. */
function isotonic(buckets: readonly Bucket[]): Knot[] {
  const pools: Pool[] = []
  const mean = ({ sumS, steps }: Pool) => sumS / steps
  for (const bucket of buckets) {
    let pool: Pool = { sumS: bucket.delayS * bucket.steps, steps: bucket.steps, members: [bucket] }
    for (let before = pools.at(-1); before && mean(before) > mean(pool); before = pools.at(-1)) {
      const { sumS, steps, members } = before
      pool = { sumS: sumS + pool.sumS, steps: steps + pool.steps, members: [...members, ...pool.members] }
      pools.pop()
    }
    pools.push(pool)
  }
  return pools.flatMap((pool) => pool.members.map(({ tokens }) => ({ tokens, delayS: mean(pool) })))
}
