import { qosPenalties, qualityOfService } from '../../../core/policy/tokenflow/quality.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import type { SummaryFigures } from '../../frame/figures.ts'
import { figuresOver, select } from '../../frame/runs.ts'
import { maxOf, mean, medianOrNull, over, quantileOrNull, sum } from '../../frame/statistics.ts'
import type { FlowRun, RestartTurn, TierCosts } from './runs.ts'
import type { ServerName } from './servers.ts'
import { type FlowSample, readingOf } from './timeline.ts'
import { type WorkloadName, workloads } from './workload.ts'

export const runsOf = ({ runs }: Pick<BenchDocument, 'runs'>) => runs as readonly FlowRun[]

/** Figures of one run; null where no token arrived. */
export function figuresOf({ samples }: Pick<FlowRun, 'samples'>) {
  const readings = samples.map(readingOf)
  const ttfts = readings.flatMap(({ ttftMs }) => ttftMs ?? [])
  const lastMs = maxOf(samples.flatMap(({ atMs, arrivedMs }) => (arrivedMs.length === 0 ? [] : [atMs + arrivedMs.at(-1)!])))
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

interface Measurements {
  readonly runs: readonly FlowRun[]
  readonly costs: TierCosts
  readonly restarts: readonly RestartTurn[]
}

/**
 * A figure of TokenFlow over another server's: the median over workloads and seeds.
 * @param arrivals spread: Poisson arrivals and traces
 */
const ratio =
  (arrivals: 'burst' | 'spread', figure: FigureName, other: ServerName) =>
  ({ runs }: Measurements) => {
    const kindOf = ({ workload }: FlowRun) => (workloads[workload].arrivals.kind === 'burst' ? 'burst' : 'spread')
    const own = select(runs, { measured: 'compared' }).filter((run) => kindOf(run) === arrivals)
    return serverRatio(own, figure, ['tokenflow', other])
  }

const withoutOver =
  (server: ServerName) =>
  ({ runs }: Measurements) =>
    serverRatio(runs, 'totalS', [server, 'tokenflow'])

/** What the readers of a crowd see, beside the default policy and FCFS. */
function crowdFigures(name: 'Matched' | 'Overload', workload: WorkloadName): SummaryFigures<Measurements> {
  const over = (figure: FigureName, other: ServerName) => (measured: Measurements) =>
    serverRatio(measured.runs, figure, ['tokenflow', other], workload)
  return {
    [`meanTtftOverDefault${name}`]: [over('ttftMeanMs', 'default'), { max: 1 }],
    [`p99TtftOverDefault${name}`]: [over('ttftP99Ms', 'default'), { max: 1 }],
    [`stalledOverDefault${name}`]: [over('stalledS', 'default'), { max: 1 }],
    [`stalledOverFcfs${name}`]: [over('stalledS', 'fcfs'), { max: 1.5 }],
    [`rawOverFcfs${name}`]: [over('rawTokensPerS', 'fcfs')],
  }
}

const warmOverCold =
  (what: 'continuedMs' | 'nextTurnMs') =>
  ({ restarts }: Measurements) =>
    medianOrNull(restarts.map((turn) => turn[what] / turn.coldMs))

export const flowFigures: SummaryFigures<Measurements> = {
  p99TtftOverFcfs: [ratio('burst', 'ttftP99Ms', 'fcfs'), { max: 0.25 }],
  meanTtftOverFcfs: [ratio('burst', 'ttftMeanMs', 'fcfs'), { max: 0.5 }],
  effectiveOverFcfs: [ratio('burst', 'effectiveTokensPerS', 'fcfs'), { min: 1.6 }],
  rawOverFcfs: [ratio('burst', 'rawTokensPerS', 'fcfs'), { min: 0.97 }],
  effectiveOverChunked: [ratio('burst', 'effectiveTokensPerS', 'chunked')],
  effectiveOverAndes: [ratio('burst', 'effectiveTokensPerS', 'andes'), { min: 1.2 }],
  rawOverAndes: [ratio('burst', 'rawTokensPerS', 'andes'), { min: 1.05 }],
  meanTtftOverFcfsSpread: [ratio('spread', 'ttftMeanMs', 'fcfs')],
  effectiveOverFcfsSpread: [ratio('spread', 'effectiveTokensPerS', 'fcfs')],
  rawOverFcfsSpread: [ratio('spread', 'rawTokensPerS', 'fcfs')],
  withoutOffloadOverAll: [withoutOver('no offload')],
  withoutWriteThroughOverAll: [withoutOver('no write-through')],
  withoutOverlapOverAll: [withoutOver('no overlap')],
  ...crowdFigures('Matched', 'matched crowd'),
  ...crowdFigures('Overload', 'overloading crowd'),
  stepLoopOverhead: [({ costs }) => medianOrNull(costs.turns.map(({ withTier }) => withTier.overhead)), { max: 0.05 }],
  // Of the throughput, while nothing is preempted.
  writeThroughCost: [
    ({ costs }) => medianOrNull(costs.turns.map(({ withTier, without }) => 1 - withTier.tokensPerS / without.tokensPerS)),
    { max: 0.03 },
  ],
  // An answer that goes on, and a next turn, over a prompt of as many tokens that the bridge has not seen.
  warmTtftAfterRestart: [warmOverCold('continuedMs'), { max: 0.2 }],
  nextTurnAfterRestart: [warmOverCold('nextTurnMs'), { max: 0.2 }],
  failedRequests: [
    ({ runs }) => sum(runs.map(({ samples }) => samples.filter(({ error }) => error !== null).length)),
    { max: 0 },
  ],
}

/** How many requests wait for their first token, and how many are between their first and their last, at each of `timesMs`. */
export function loadOverTime(
  samples: readonly FlowSample[],
  timesMs: readonly number[],
): { readonly waiting: number[]; readonly running: number[] } {
  const spans = samples.map(({ atMs, arrivedMs }) => {
    const first = arrivedMs[0] ?? Number.POSITIVE_INFINITY
    return { sentMs: atMs, firstMs: atMs + first, lastMs: atMs + (arrivedMs.at(-1) ?? first) }
  })
  const count = (holds: (span: (typeof spans)[number], atMs: number) => boolean) =>
    timesMs.map((atMs) => spans.filter((span) => holds(span, atMs)).length)
  return {
    waiting: count(({ sentMs, firstMs }, atMs) => sentMs <= atMs && atMs < firstMs),
    running: count(({ firstMs, lastMs }, atMs) => firstMs <= atMs && atMs < lastMs),
  }
}
