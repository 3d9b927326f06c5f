/** What a plan is judged by (PICE §IV-A), each ≥ 0, less is better. */
export interface Metrics {
  /** Expected loss of quality against the LLM's own answer, 0..1. */
  readonly error: number
  /** Seconds per answer of the slowest stage: the inverse of the throughput. */
  readonly throughput: number
  /** Seconds until the answer is complete. */
  readonly latency: number
  /** Tokens that the LLM generates. */
  readonly serverCost: number
  /** Tokens that small models generate. */
  readonly edgeCost: number
}

export const metricNames = ['error', 'throughput', 'latency', 'serverCost', 'edgeCost'] as const

export interface Objective {
  readonly metric: keyof Metrics
  /** ε: plans up to (1 + ε) times the least value count as equal, or noise would make all later objectives moot. */
  readonly tolerance: number
}

/**
 * Lexicographic choice: of the plans that are as good as any in the objectives before, those within the tolerance of the least
 * value of the next; of what is left, the least value of the last objective, the first of equal ones.
 * @throws RangeError without any plan
 */
export function chooseByObjectives<P extends { readonly metrics: Metrics }>(
  plans: readonly P[],
  objectives: readonly Objective[],
): P {
  let left = plans
  for (const { metric, tolerance } of objectives) {
    const limit = (1 + tolerance) * left.reduce((min, { metrics }) => Math.min(min, metrics[metric]), Number.POSITIVE_INFINITY)
    left = left.filter(({ metrics }) => metrics[metric] <= limit)
  }
  const last = objectives.at(-1)?.metric
  const [first, ...others] = left
  if (!first) throw new RangeError('no plan to choose from')
  return last === undefined ? first : others.reduce((a, b) => (b.metrics[last] < a.metrics[last] ? b : a), first)
}
