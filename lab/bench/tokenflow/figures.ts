import { quantile } from '../../../core/policy/estimate/quantile.ts'
import { qosPenalties, qualityOfService } from '../../../core/policy/tokenflow/quality.ts'
import type { Summary } from '../../frame/bench.ts'
import { mean, medianOrNull, sum } from '../../frame/statistics.ts'
import type { FlowRun, Measured, TierCosts } from './runs.ts'
import type { ServerName } from './servers.ts'
import { arrivalsOf, type FlowSample, readingOf } from './timeline.ts'
import { type WorkloadName, workloads } from './workload.ts'

/** Figures of one run; null where no token arrived. */
export interface RunFigures {
  readonly ttftMeanMs: number | null
  readonly ttftP50Ms: number | null
  readonly ttftP99Ms: number | null
  /** Tokens per second from the first request to the last token. */
  readonly rawTokensPerS: number | null
  /** Likewise, tokens weighted by TokenFlow Eq. 1. */
  readonly effectiveTokensPerS: number | null
  /** Per answer. */
  readonly stalls: number | null
  readonly stalledS: number | null
  /** TokenFlow Eq. 2. */
  readonly qos: number | null
  /** From the first request to the last token. */
  readonly totalS: number | null
}

export type FigureName = keyof RunFigures

export function figuresOf({ samples }: Pick<FlowRun, 'samples'>): RunFigures {
  const readings = samples.map(readingOf)
  const ttfts = readings.flatMap(({ ttftMs }) => ttftMs ?? [])
  const ends = samples.flatMap((sample) => (sample.gaps === '' ? [] : [sample.atMs + arrivalsOf(sample).at(-1)!]))
  const totalS = ends.length === 0 ? null : (Math.max(...ends) - Math.min(...samples.map(({ atMs }) => atMs))) / 1_000
  const perS = (total: number) => (totalS === null || totalS === 0 ? null : total / totalS)
  return {
    ttftMeanMs: mean(ttfts),
    ttftP50Ms: ttfts.length === 0 ? null : quantile(ttfts, 0.5),
    ttftP99Ms: ttfts.length === 0 ? null : quantile(ttfts, 0.99),
    rawTokensPerS: perS(sum(readings.map(({ tokens }) => tokens))),
    effectiveTokensPerS: perS(sum(readings.map(({ weightedTokens }) => weightedTokens))),
    stalls: mean(readings.map(({ stalls }) => stalls)),
    stalledS: mean(readings.map(({ stalledMs }) => stalledMs / 1_000)),
    qos: totalS === null || totalS === 0 ? null : qualityOfService(readings, totalS, qosPenalties),
    totalS,
  }
}

/** The runs that match. */
export function select(
  runs: readonly FlowRun[],
  wanted: { readonly measured?: Measured; readonly server?: ServerName; readonly workload?: WorkloadName },
): FlowRun[] {
  const keys = Object.entries(wanted) as [keyof typeof wanted, string][]
  return runs.filter((run) => keys.every(([key, value]) => run[key] === value))
}

/** A figure of a server over another's, on the same workload with the same seed: the median over those pairs. */
export function ratioOf(
  runs: readonly FlowRun[],
  figure: FigureName,
  [own, other]: readonly [ServerName, ServerName],
  workload?: WorkloadName,
): number | null {
  const ratios = select(runs, { server: own, ...(workload && { workload }) }).flatMap((run) => {
    const beside = runs.find((each) => each.server === other && each.workload === run.workload && each.seed === run.seed)
    const [a, b] = [figuresOf(run)[figure], beside ? figuresOf(beside)[figure] : null]
    return a === null || b === null || b === 0 ? [] : [a / b]
  })
  return medianOrNull(ratios)
}

/** Whether all requests of a workload arrive at once. */
const isBurst = ({ workload }: FlowRun) => workloads[workload].arrivals.kind === 'burst'

/** The summary. The ratios are of bursts, as in the paper's Fig. 16. */
export function summarise(runs: readonly FlowRun[], costs: TierCosts): Summary {
  const compared = select(runs, { measured: 'compared' })
  const bursts = compared.filter(isBurst)
  const others = compared.filter((run) => !isBurst(run))
  const over = (from: readonly FlowRun[], figure: FigureName, other: ServerName) => ratioOf(from, figure, ['tokenflow', other])
  return {
    p99TtftOverFcfs: over(bursts, 'ttftP99Ms', 'fcfs'),
    meanTtftOverFcfs: over(bursts, 'ttftMeanMs', 'fcfs'),
    effectiveOverFcfs: over(bursts, 'effectiveTokensPerS', 'fcfs'),
    rawOverFcfs: over(bursts, 'rawTokensPerS', 'fcfs'),
    effectiveOverChunked: over(bursts, 'effectiveTokensPerS', 'chunked'),
    effectiveOverAndes: over(bursts, 'effectiveTokensPerS', 'andes'),
    rawOverAndes: over(bursts, 'rawTokensPerS', 'andes'),
    meanTtftOverFcfsSpread: over(others, 'ttftMeanMs', 'fcfs'),
    effectiveOverFcfsSpread: over(others, 'effectiveTokensPerS', 'fcfs'),
    rawOverFcfsSpread: over(others, 'rawTokensPerS', 'fcfs'),
    withoutOffloadOverAll: ratioOf(runs, 'totalS', ['no offload', 'tokenflow']),
    withoutWriteThroughOverAll: ratioOf(runs, 'totalS', ['no write-through', 'tokenflow']),
    withoutOverlapOverAll: ratioOf(runs, 'totalS', ['no overlap', 'tokenflow']),
    ...crowdFigures(runs, 'Matched', 'matched crowd'),
    ...crowdFigures(runs, 'Overload', 'overloading crowd'),
    stepLoopOverhead: medianOrNull(costs.turns.map(({ withTier }) => withTier.overhead)),
    writeThroughCost: costOf(costs),
    failedRequests: sum(runs.map(({ samples }) => samples.filter(({ error }) => error !== null).length)),
  }
}

/** What the readers of a crowd see, beside the default policy and FCFS. */
function crowdFigures(runs: readonly FlowRun[], name: 'Matched' | 'Overload', workload: WorkloadName): Summary {
  const over = (figure: FigureName, other: ServerName) => ratioOf(runs, figure, ['tokenflow', other], workload)
  return {
    [`meanTtftOverDefault${name}`]: over('ttftMeanMs', 'default'),
    [`p99TtftOverDefault${name}`]: over('ttftP99Ms', 'default'),
    [`stalledOverDefault${name}`]: over('stalledS', 'default'),
    [`stalledOverFcfs${name}`]: over('stalledS', 'fcfs'),
    [`rawOverFcfs${name}`]: over('rawTokensPerS', 'fcfs'),
  }
}

/** Share of the throughput that write-through costs while nothing is preempted: the median over turns. */
function costOf({ turns }: TierCosts): number | null {
  return medianOrNull(turns.map(({ withTier, without }) => 1 - withTier.tokensPerS / without.tokensPerS))
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
