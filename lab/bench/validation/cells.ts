import { maxOf, mean, quantileOrNull, sum } from '../../frame/statistics.ts'

/** Live benchmarks that the simulator predicts. */
export const validatedBenches = ['tokenflow', 'hat', 'pice', 'disco'] as const
export type ValidatedBench = (typeof validatedBenches)[number]

/** Times of one answer, in ms; null where it had none. */
export interface AnswerTimes {
  /** From the run's beginning to the request. */
  readonly atMs: number
  readonly ttftMs: number | null
  /** Mean time between its tokens. */
  readonly tbtMs: number | null
  /** From the request to its last token. */
  readonly tookMs: number | null
  readonly tokens: number
}

export const metrics = ['TTFT', 'TTFT P95', 'TBT', 'TBT P95', 'throughput'] as const
export type Metric = (typeof metrics)[number]

/** One figure of one run, measured and simulated: ms, and tokens per second. */
export interface ValidationCell {
  readonly bench: ValidatedBench
  /** Load and method of the run. */
  readonly run: string
  readonly metric: Metric
  readonly measured: number
  readonly simulated: number
  /** |simulated − measured| / measured. */
  readonly error: number
}

/** The figures of one run, side by side; those that either of them lacks are left out. */
export function cellsOf(
  bench: ValidatedBench,
  run: string,
  measured: readonly AnswerTimes[],
  simulated: readonly AnswerTimes[],
): ValidationCell[] {
  const [live, predicted] = [figuresOf(measured), figuresOf(simulated)]
  return metrics.flatMap((metric) => {
    const [own, other] = [live[metric], predicted[metric]]
    if (own === null || other === null || own === 0) return []
    return [{ bench, run, metric, measured: own, simulated: other, error: Math.abs(other - own) / own }]
  })
}

function figuresOf(answers: readonly AnswerTimes[]): Readonly<Record<Metric, number | null>> {
  const ttfts = answers.flatMap(({ ttftMs }) => ttftMs ?? [])
  const tbts = answers.flatMap(({ tbtMs }) => tbtMs ?? [])
  const p95 = (values: readonly number[]) => quantileOrNull(values, 0.95)
  return { TTFT: mean(ttfts), 'TTFT P95': p95(ttfts), TBT: mean(tbts), 'TBT P95': p95(tbts), throughput: tokensPerS(answers) }
}

/** From the first request to the last token. */
function tokensPerS(answers: readonly AnswerTimes[]): number | null {
  const ends = answers.flatMap(({ atMs, tookMs }) => (tookMs === null ? [] : [atMs + tookMs]))
  const lastMs = maxOf(ends)
  if (lastMs === null) return null
  const spanS = (lastMs - Math.min(...answers.map(({ atMs }) => atMs))) / 1_000
  return sum(answers.map(({ tokens }) => tokens)) / spanS
}
