import type { ReportedSide } from '../../../core/policy/disco/state.ts'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import type { SummaryFigures } from '../../frame/figures.ts'
import { select } from '../../frame/runs.ts'
import { groupBy, maxOf, mean, meanBy, sum } from '../../frame/statistics.ts'
import type { LatencyTrace, PromptSet } from './data.ts'
import type { LiveRun } from './live.ts'
import { comparedMethods, constrainedSides, type MethodName } from './methods.ts'
import { budgetOverWire, budgetOverWireLeft, maxGapS, overCap, type WireRun } from './over-wire.ts'
import { type AnswerLengths, type CostRun, type PerSeed, type TtftRun, valuesOf } from './runs.ts'

/** From this ratio of P99 to median TTFT on, a trace counts as heavy-tailed. */
export const heavyTail = 3
/** Below it DiSCo may trade mean TTFT for the tail (§5.2). */
const lowestBudget = 0.2

export const tailOf = ({ latencies }: LatencyTrace): number => {
  const ttfts = latencies.map(({ ttftMs }) => ttftMs)
  return quantile(ttfts, 0.99) / quantile(ttfts, 0.5)
}

/** What a document says of a trace. */
export interface TraceFigures {
  readonly name: string
  readonly requests: number
  readonly failed: number
  readonly medianMs: number
  readonly p99Ms: number
  readonly tail: number
  /** P99 of the mean gap between a request's tokens. */
  readonly tokenP99Ms: number
}

export function traceFigures(trace: LatencyTrace): TraceFigures {
  const of = (what: 'ttftMs' | 'tokenMs') => trace.latencies.map((latency) => latency[what])
  return {
    name: trace.name,
    requests: trace.latencies.length,
    failed: trace.failed,
    medianMs: quantile(of('ttftMs'), 0.5),
    p99Ms: quantile(of('ttftMs'), 0.99),
    tail: tailOf(trace),
    tokenP99Ms: quantile(of('tokenMs'), 0.99),
  }
}

/** A method beside stochastic dispatch with the same trace, device, prompts and budget. */
export interface Comparison extends Pick<TtftRun, 'trace' | 'device' | 'prompts'> {
  readonly constrained: ReportedSide
  readonly budget: number
  /** 1 − P99 TTFT over that of stochastic dispatch, from means over seeds. */
  readonly p99Cut: number
  /** That of any dispatcher that knew all starts beforehand. */
  readonly p99CutMost: number
  /** Mean TTFT over that of stochastic dispatch. */
  readonly meanRatio: number
}

export function comparisonsOf(runs: readonly TtftRun[]): Comparison[] {
  const key = ({ trace, device, prompts, budget }: TtftRun, method: MethodName) =>
    [prompts, trace, device, budget, method].join('\n')
  const byKey = new Map(runs.map((run) => [key(run, run.method), run]))
  return constrainedSides.flatMap((constrained) => {
    const { disco, stochastic } = comparedMethods[constrained]
    return runs.flatMap((run) => {
      const beside = byKey.get(key(run, stochastic))
      const { trace, device, prompts, budget } = run
      if (run.method !== disco || budget === null || !beside) return []
      const ratio = (what: 'meanMs' | 'p99Ms') => meanOf(run[what]) / meanOf(beside[what])
      const p99CutMost = 1 - meanOf(run.leastP99Ms) / meanOf(beside.p99Ms)
      return [{ trace, device, prompts, constrained, budget, p99Cut: 1 - ratio('p99Ms'), p99CutMost, meanRatio: ratio('meanMs') }]
    })
  })
}

export const meanOf = (series: PerSeed): number => mean(valuesOf(series)) ?? Number.NaN

/** Whole answers with migration beside the same without it. */
export interface Saving extends Pick<CostRun, 'trace' | 'device' | 'prices' | 'lengths'> {
  readonly constrained: ReportedSide
  readonly budget: number
  /** 1 − cost over that without migration. */
  readonly cut: number
  /** That of any migration. */
  readonly cutMost: number
}

export function savingsOf(runs: readonly CostRun[]): Saving[] {
  return constrainedSides.flatMap((constrained) =>
    runs.flatMap(({ trace, device, prices, lengths, method, budget, dollars, dollarsAlone, dollarsLeast }) => {
      if (method !== comparedMethods[constrained].disco || budget === null) return []
      const cutTo = (least: PerSeed) => 1 - meanOf(least) / meanOf(dollarsAlone)
      return [{ trace, device, prices, lengths, constrained, budget, cut: cutTo(dollars), cutMost: cutTo(dollarsLeast) }]
    }),
  )
}

/** Of answers that migrated under DiSCo. */
export function migratedRuns(runs: readonly CostRun[], constrained: ReportedSide): CostRun[] {
  return runs.filter(({ method, migrated }) => method === comparedMethods[constrained].disco && meanOf(migrated) > 0)
}

export interface Inputs {
  readonly traces: readonly TraceFigures[]
  readonly ttft: readonly TtftRun[]
  readonly cost: readonly CostRun[]
  readonly live: readonly LiveRun[]
  readonly wire: readonly WireRun[]
}

export const isHeavy = ({ tail }: TraceFigures): boolean => tail >= heavyTail

/** The names of the heavy-tailed traces. */
export const heavyOf = (traces: readonly TraceFigures[]): ReadonlySet<string> =>
  new Set(traces.filter(isHeavy).map(({ name }) => name))

const cut =
  (constrained: ReportedSide, prompts: PromptSet, kind: 'heavy' | 'steady', by: 'p99Cut' | 'p99CutMost' = 'p99Cut') =>
  ({ traces, ttft }: Inputs) => {
    const heavy = heavyOf(traces)
    const own = select(comparisonsOf(ttft), { constrained, prompts }).filter(
      ({ trace }) => heavy.has(trace) === (kind === 'heavy'),
    )
    return meanBy(own, (comparison) => comparison[by])
  }

const costCut =
  (
    of: (cuts: readonly number[]) => number | null,
    constrained: ReportedSide,
    lengths: AnswerLengths,
    by: 'cut' | 'cutMost' = 'cut',
  ) =>
  ({ cost }: Inputs) =>
    of(select(savingsOf(cost), { constrained, lengths }).map((saving) => saving[by]))

function smallerCut(inputs: Inputs): number | null {
  const largest = constrainedSides.map((side) => costCut(maxOf, side, 'limit')(inputs) ?? Number.NaN)
  return largest.some(Number.isNaN) ? null : Math.min(...largest)
}

const ratiosOf = (ttft: readonly TtftRun[], prompts: PromptSet) =>
  select(comparisonsOf(ttft), { prompts }).filter(({ budget }) => budget >= lowestBudget)

const migratedOf = (cost: readonly CostRun[]) => constrainedSides.flatMap((side) => migratedRuns(cost, side))

/** How far DiSCo's share of the limited side is above the budget. */
const excessOf = ({ method, budget, share }: TtftRun): number[] =>
  budget === null || !method.startsWith('DiSCo') ? [] : [meanOf(share) - budget]

const offBy = (ratio: number | null) => (ratio === null ? null : Math.abs(ratio - 1))

export const discoFigures: SummaryFigures<Inputs> = {
  p99TtftCutServer: [cut('server', 'alpaca', 'heavy'), { min: 0.35 }],
  p99TtftCutDevice: [cut('device', 'alpaca', 'heavy'), { min: 0.35 }],
  meanTtftOverStochastic: [({ ttft }) => maxOf(ratiosByBudget(ratiosOf(ttft, 'alpaca'))), { max: 1 }],
  p99TbtS: [({ cost }) => maxOf(tbtByTrace(migratedOf(cost))), { max: 0.217 }],
  liveOverReplay: [
    ({ live }) => maxOf(liveRatios(live).flatMap(({ ratios }) => Object.values(ratios).map((ratio) => Math.abs(ratio - 1)))),
    { max: 0.15 },
  ],
  migrationCostCut: [smallerCut, { min: 0.7 }],
  budgetOffWire: [({ wire }) => offBy(budgetOverWire(wire)), { max: 0.05 }],
  overCap: [({ wire }) => overCap(wire), { max: 0 }],
  maxGapS: [({ wire }) => maxGapS(wire), { max: 1 }],
  budgetOverWire: [({ wire }) => budgetOverWire(wire)],
  budgetOverWireLeft: [({ wire }) => budgetOverWireLeft(wire)],
  p99TtftCutServerMost: [cut('server', 'alpaca', 'heavy', 'p99CutMost')],
  p99TtftCutDeviceMost: [cut('device', 'alpaca', 'heavy', 'p99CutMost')],
  p99TtftCutServerSteady: [cut('server', 'alpaca', 'steady')],
  p99TtftCutDeviceSteady: [cut('device', 'alpaca', 'steady')],
  p99TtftCutServerAzure: [cut('server', 'azure', 'heavy')],
  p99TtftCutDeviceAzure: [cut('device', 'azure', 'heavy')],
  meanTtftOverStochasticAzure: [({ ttft }) => maxOf(ratiosByBudget(ratiosOf(ttft, 'azure')))],
  meanTtftOverStochasticWorst: [({ ttft }) => maxOf(ratiosOf(ttft, 'alpaca').map(({ meanRatio }) => meanRatio))],
  migrationCostCutServer: [costCut(maxOf, 'server', 'limit')],
  migrationCostCutDevice: [costCut(maxOf, 'device', 'limit')],
  migrationCostCutServerMean: [costCut(mean, 'server', 'limit')],
  migrationCostCutDeviceMean: [costCut(mean, 'device', 'limit')],
  migrationCostCutServerOwnLengths: [costCut(maxOf, 'server', 'alpaca')],
  migrationCostCutDeviceOwnLengths: [costCut(maxOf, 'device', 'alpaca')],
  migrationCostCutServerOwnMost: [costCut(maxOf, 'server', 'alpaca', 'cutMost')],
  migrationCostCutDeviceOwnMost: [costCut(maxOf, 'device', 'alpaca', 'cutMost')],
  delayedTokens: [({ cost }) => meanBy(migratedOf(cost), ({ delayedMean }) => meanOf(delayedMean))],
  shareOverBudget: [({ ttft }) => maxOf(ttft.flatMap(excessOf))],
}

/** Real answers of one method over their replay: means of TTFT, of the time to the last token, and of what they cost. */
export interface LiveRatios {
  readonly method: MethodName
  readonly runs: readonly LiveRun[]
  readonly ratios: Readonly<Record<'ttftMs' | 'tookMs' | 'dollars', number>>
}

export function liveRatios(runs: readonly LiveRun[]): LiveRatios[] {
  return groupBy(runs, ({ method }) => method).map((group) => {
    const ratio = (what: 'ttftMs' | 'tookMs' | 'dollars') => {
      const total = (by: 'live' | 'replay') => sum(group.map((run) => run[by][what]))
      return total('live') / total('replay')
    }
    return {
      method: group[0]!.method,
      runs: group,
      ratios: { ttftMs: ratio('ttftMs'), tookMs: ratio('tookMs'), dollars: ratio('dollars') },
    }
  })
}

/** Of each side and budget: the mean over traces and devices. */
const ratiosByBudget = (comparisons: readonly Comparison[]): number[] =>
  groupBy(comparisons, ({ constrained, budget }) => `${constrained} ${budget}`).flatMap(
    (group) => meanBy(group, ({ meanRatio }) => meanRatio) ?? [],
  )

/** Of each trace and side: the mean over devices, prices and budgets, as in the paper's Table 3. */
const tbtByTrace = (runs: readonly CostRun[]): number[] =>
  groupBy(runs, ({ trace, method }) => `${trace} ${method}`).flatMap(
    (group) => meanBy(group, ({ tbtP99Ms }) => meanOf(tbtP99Ms) / 1_000) ?? [],
  )
