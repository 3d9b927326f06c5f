import { qosPenalties, qualityOfService } from '../../../core/policy/tokenflow/quality.ts'
import type { BenchDocument, Summary } from '../../frame/bench.ts'
import { figuresOver, select } from '../../frame/runs.ts'
import { maxOf, mean, medianOrNull, over, quantileOrNull, sum } from '../../frame/statistics.ts'
import type { FlowRun, TierCosts } from './runs.ts'
import type { ServerName } from './servers.ts'
import { arrivalsOf, type FlowSample, readingOf } from './timeline.ts'
import { type WorkloadName, workloads } from './workload.ts'

export const runsOf = ({ runs }: Pick<BenchDocument, 'runs'>) => runs as readonly FlowRun[]

/** Figures of one run; null where no token arrived. */
export function figuresOf({ samples }: Pick<FlowRun, 'samples'>) {
  const readings = samples.map(readingOf)
  const ttfts = readings.flatMap(({ ttftMs }) => ttftMs ?? [])
  const lastMs = maxOf(samples.flatMap((sample) => (sample.gaps === '' ? [] : [sample.atMs + arrivalsOf(sample).at(-1)!])))
  const totalS = lastMs === null ? null : (lastMs - Math.min(...samples.map(({ atMs }) => atMs))) / 1_000
  return {
    ttftMeanMs: mean(ttfts),
    ttftP50Ms: quantileOrNull(ttfts, 0.5),
    ttftP99Ms: quantileOrNull(ttfts, 0.99),
    /** Tokens per second from the first request to the last token. */
    rawTokensPerS: over(sum(readings.map(({ tokens }) => tokens)), totalS),
    /** Likewise, tokens weighted by TokenFlow Eq. 1. */
    effectiveTokensPerS: over(sum(readings.map(({ weightedTokens }) => weightedTokens)), totalS),
    /** Per answer. */
    stalls: mean(readings.map(({ stalls }) => stalls)),
    stalledS: mean(readings.map(({ stalledMs }) => stalledMs / 1_000)),
    /** TokenFlow Eq. 2. */
    qos: totalS ? qualityOfService(readings, totalS, qosPenalties) : null,
    /** From the first request to the last token. */
    totalS,
  }
}

export type FigureName = keyof ReturnType<typeof figuresOf>

const { medianOf, ratioOf } = figuresOver<FlowRun, FigureName>(figuresOf, ['workload', 'seed'])

export { medianOf }

/** A figure of a server over another's, on the same workload with the same seed: the median over those pairs. */
export const serverRatio = (
  runs: readonly FlowRun[],
  figure: FigureName,
  [server, other]: readonly [ServerName, ServerName],
  workload?: WorkloadName,
): number | null => ratioOf(select(runs, { workload }), figure, [{ server }, { server: other }])

/** The summary: ratios are medians over workloads and seeds. */
export function summarise(runs: readonly FlowRun[], costs: TierCosts): Summary {
  const compared = select(runs, { measured: 'compared' })
  const isBurst = ({ workload }: FlowRun) => workloads[workload].arrivals.kind === 'burst'
  const [bursts, others] = [compared.filter(isBurst), compared.filter((run) => !isBurst(run))]
  const ratio = (own: readonly FlowRun[], figure: FigureName, other: ServerName) => serverRatio(own, figure, ['tokenflow', other])
  const withoutOver = (server: ServerName) => serverRatio(runs, 'totalS', [server, 'tokenflow'])
  return {
    p99TtftOverFcfs: ratio(bursts, 'ttftP99Ms', 'fcfs'),
    meanTtftOverFcfs: ratio(bursts, 'ttftMeanMs', 'fcfs'),
    effectiveOverFcfs: ratio(bursts, 'effectiveTokensPerS', 'fcfs'),
    rawOverFcfs: ratio(bursts, 'rawTokensPerS', 'fcfs'),
    effectiveOverChunked: ratio(bursts, 'effectiveTokensPerS', 'chunked'),
    effectiveOverAndes: ratio(bursts, 'effectiveTokensPerS', 'andes'),
    rawOverAndes: ratio(bursts, 'rawTokensPerS', 'andes'),
    meanTtftOverFcfsSpread: ratio(others, 'ttftMeanMs', 'fcfs'),
    effectiveOverFcfsSpread: ratio(others, 'effectiveTokensPerS', 'fcfs'),
    rawOverFcfsSpread: ratio(others, 'rawTokensPerS', 'fcfs'),
    withoutOffloadOverAll: withoutOver('no offload'),
    withoutWriteThroughOverAll: withoutOver('no write-through'),
    withoutOverlapOverAll: withoutOver('no overlap'),
    ...crowdFigures(select(runs, { workload: 'matched crowd' }), 'Matched'),
    ...crowdFigures(select(runs, { workload: 'overloading crowd' }), 'Overload'),
    stepLoopOverhead: medianOrNull(costs.turns.map(({ withTier }) => withTier.overhead)),
    // Of the throughput, while nothing is preempted.
    writeThroughCost: medianOrNull(costs.turns.map(({ withTier, without }) => 1 - withTier.tokensPerS / without.tokensPerS)),
    failedRequests: sum(runs.map(({ samples }) => samples.filter(({ error }) => error !== null).length)),
  }
}

/** What the readers of a crowd see, beside the default policy and FCFS. */
function crowdFigures(runs: readonly FlowRun[], name: 'Matched' | 'Overload'): Summary {
  const ratio = (figure: FigureName, other: ServerName) => serverRatio(runs, figure, ['tokenflow', other])
  return {
    [`meanTtftOverDefault${name}`]: ratio('ttftMeanMs', 'default'),
    [`p99TtftOverDefault${name}`]: ratio('ttftP99Ms', 'default'),
    [`stalledOverDefault${name}`]: ratio('stalledS', 'default'),
    [`stalledOverFcfs${name}`]: ratio('stalledS', 'fcfs'),
    [`rawOverFcfs${name}`]: ratio('rawTokensPerS', 'fcfs'),
  }
}

/** How many requests wait for their first token, and how many are between their first and their last, at each of `timesMs`. */
export function loadOverTime(
  samples: readonly FlowSample[],
  timesMs: readonly number[],
): { readonly waiting: number[]; readonly running: number[] } {
  const spans = samples.map((sample) => {
    const arrived = arrivalsOf(sample)
    const first = arrived[0] ?? Number.POSITIVE_INFINITY
    return { sentMs: sample.atMs, firstMs: sample.atMs + first, lastMs: sample.atMs + (arrived.at(-1) ?? first) }
  })
  const count = (holds: (span: (typeof spans)[number], atMs: number) => boolean) =>
    timesMs.map((atMs) => spans.filter((span) => holds(span, atMs)).length)
  return {
    waiting: count(({ sentMs, firstMs }, atMs) => sentMs <= atMs && atMs < firstMs),
    running: count(({ firstMs, lastMs }, atMs) => firstMs <= atMs && atMs < lastMs),
  }
}
