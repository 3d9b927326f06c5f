import type { BenchDocument, Table } from '../../frame/bench.ts'
import { groupBy, intervalOf, mean } from '../../frame/statistics.ts'
import { maxOutputTokens, type PromptSet } from './data.ts'
import {
  type Comparison,
  comparisonsOf,
  isHeavy,
  liveRatios,
  meanOf,
  migratedRuns,
  savingsOf,
  type TraceFigures,
} from './figures.ts'
import type { LiveFigures, LiveRun } from './live.ts'
import { comparedMethods, constrainedSides, type MethodName } from './methods.ts'
import { type CostFigures, type CostRun, type PerSeed, type TtftRun, valuesOf } from './runs.ts'

type Run = TtftRun | CostRun | LiveRun
export const ttftRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'ttft')
export const costRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'cost')
export const liveRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'live')
export const tracesOf = ({ conditions }: BenchDocument) => conditions.traces as readonly TraceFigures[]

export function tablesOf(document: BenchDocument): Table[] {
  const tables = [
    traceTable(tracesOf(document)),
    ...(['alpaca', 'azure'] as const).map((prompts) => cutTable(document, prompts)),
    budgetTable(document),
    migrationTable(document),
    savingTable(document),
    ablationTable(document),
    liveTable(document),
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

export const seconds = (ms: number | null | undefined, digits = 2) => (ms == null ? '–' : (ms / 1_000).toFixed(digits))
const percent = (share: number | null) => (share === null ? '–' : `${(100 * share).toFixed(1)} %`)
const meanBy = <T>(items: readonly T[], value: (item: T) => number) => mean(items.map(value))

function traceTable(traces: readonly TraceFigures[]): Table {
  return {
    title: 'Traces of servers, heavy-tailed first',
    head: ['trace', 'requests', 'failed', 'median TTFT s', 'P99 s', 'P99 / median', 'P99 of token gaps s', ''],
    rows: inOrder(traces).map((trace) => [
      trace.name,
      String(trace.requests),
      String(trace.failed),
      seconds(trace.medianMs),
      seconds(trace.p99Ms),
      trace.tail.toFixed(1),
      seconds(trace.tokenP99Ms, 3),
      isHeavy(trace) ? 'heavy-tailed' : 'steady',
    ]),
  }
}

export const inOrder = (traces: readonly TraceFigures[]): TraceFigures[] =>
  [...traces].sort((a, b) => Number(isHeavy(b)) - Number(isHeavy(a)) || a.name.localeCompare(b.name))

/** The paper's Table 2. */
function cutTable(document: BenchDocument, prompts: PromptSet): Table {
  const all = comparisonsOf(ttftRuns(document)).filter((each) => each.prompts === prompts)
  const devices = [...new Set(all.map(({ device }) => device))]
  const cells = (of: readonly Comparison[]) => [
    ...devices.map((device) =>
      percent(
        meanBy(
          of.filter((each) => each.device === device),
          ({ p99Cut }) => p99Cut,
        ),
      ),
    ),
    percent(meanBy(of, ({ p99Cut }) => p99Cut)),
    meanBy(of, ({ meanRatio }) => meanRatio)?.toFixed(3) ?? '–',
  ]
  const names = inOrder(tracesOf(document)).filter(({ name }) => all.some(({ trace }) => trace === name))
  return {
    title: `Cut of the P99 TTFT against stochastic dispatch, mean over budgets (Table 2), prompts of ${prompts}`,
    head: ['trace', 'constrained', ...devices, 'mean', 'mean TTFT over stochastic'],
    rows: names.flatMap((trace) =>
      constrainedSides.map((side) => [
        isHeavy(trace) ? `**${trace.name}**` : trace.name,
        side,
        ...cells(all.filter((each) => each.trace === trace.name && each.constrained === side)),
      ]),
    ),
  }
}

/** Mean and P99 by budget, over all heavy-tailed traces and devices, with intervals over seeds. */
function budgetTable(document: BenchDocument): Table {
  const heavy = new Set(
    tracesOf(document)
      .filter(isHeavy)
      .map(({ name }) => name),
  )
  const runs = ttftRuns(document).filter(({ trace, prompts }) => prompts === 'alpaca' && heavy.has(trace))
  const rows = groupBy(runs, ({ budget, method }) => `${budget} ${method}`).map((group) => {
    const [{ budget, method }] = group as [TtftRun]
    return [
      budget === null ? '–' : budget.toFixed(1),
      method,
      withInterval(group.map(({ meanMs }) => meanMs)),
      withInterval(group.map(({ p99Ms }) => p99Ms)),
      percent(meanBy(group, ({ share }) => meanOf(share))),
    ]
  })
  return {
    title: 'TTFT by budget, mean over heavy-tailed traces and devices, ± 95 % interval over seeds',
    head: ['b', 'method', 'mean s', 'P99 s', 'share of the constrained side'],
    rows: rows.sort(([a], [b]) => a!.localeCompare(b!)),
  }
}

function bySeed(series: readonly PerSeed[]): number[] {
  const values = series.map(valuesOf)
  return (values[0] ?? []).map((_, seed) => mean(values.map((each) => each[seed]!)) ?? Number.NaN)
}

/** The mean over settings of each seed, then over seeds. */
function withInterval(series: readonly PerSeed[]): string {
  const interval = intervalOf(bySeed(series))
  if (!interval) return '–'
  return interval.half === null ? seconds(interval.mean) : `${seconds(interval.mean)} ± ${seconds(interval.half)}`
}

/** The paper's Table 3. */
function migrationTable(document: BenchDocument): Table {
  const runs = costRuns(document).filter(({ lengths }) => lengths === 'alpaca')
  const rows = inOrder(tracesOf(document)).flatMap((trace) =>
    constrainedSides.flatMap((side) => {
      const own = migratedRuns(runs, side).filter((run) => run.trace === trace.name)
      if (own.length === 0) return []
      return [
        [
          isHeavy(trace) ? `**${trace.name}**` : trace.name,
          side,
          percent(meanBy(own, ({ migrated }) => meanOf(migrated))),
          meanBy(own, ({ failedMigrations }) => meanOf(failedMigrations))!.toFixed(2),
          meanBy(own, ({ delayedMean }) => meanOf(delayedMean))!.toFixed(2),
          meanBy(own, ({ delayedP99 }) => meanOf(delayedP99))!.toFixed(2),
          seconds(
            meanBy(own, ({ tbtP99Ms }) => meanOf(tbtP99Ms)),
            3,
          ),
        ],
      ]
    }),
  )
  return {
    title: 'Answers that migrated (Table 3), mean over devices, prices and budgets',
    head: ['trace', 'constrained', 'migrated', 'given up, per answer', 'delayed tokens, mean', 'P99', 'P99 TBT s'],
    rows,
  }
}

/** The paper's Fig. 7, as numbers. */
function savingTable(document: BenchDocument): Table {
  const savings = savingsOf(costRuns(document))
  const groups = groupBy(savings, ({ prices, lengths, constrained }) => `${lengths} ${prices} ${constrained}`)
  return {
    title: 'Cost saved by migration, against the same without it',
    head: ['answer lengths', 'prices', 'constrained', 'mean', 'largest', 'with trace', 'device', 'b'],
    rows: groups.map((group) => {
      const best = group.reduce((a, b) => (b.cut > a.cut ? b : a))
      return [
        best.lengths === 'limit' ? `all ${maxOutputTokens}` : 'of the data',
        best.prices,
        best.constrained,
        percent(meanBy(group, ({ cut }) => cut)),
        percent(best.cut),
        best.trace,
        best.device,
        best.budget.toFixed(1),
      ]
    }),
  }
}

type Columns = readonly [keyof CostFigures, keyof CostFigures, keyof CostFigures]
const migrating: Columns = ['dollars', 'meanMs', 'p99Ms']
const alone: Columns = ['dollarsAlone', 'meanMsAlone', 'p99MsAlone']

/** Dispatch alone, migration alone, both and neither. */
function ablationTable(document: BenchDocument): Table {
  const heavy = new Set(
    tracesOf(document)
      .filter(isHeavy)
      .map(({ name }) => name),
  )
  const runs = costRuns(document).filter(({ trace, lengths }) => lengths === 'alpaca' && heavy.has(trace))
  const row = (label: string, side: (typeof constrainedSides)[number], method: MethodName, [dollars, meanMs, p99Ms]: Columns) => {
    const own = runs.filter((run) => run.method === method)
    const of = (column: keyof CostFigures) => meanBy(own, (run) => meanOf(run[column]))
    if (own.length === 0) return []
    const cost = intervalOf(bySeed(own.map((run) => run[dollars])))
    const half = cost?.half == null ? '' : ` ± ${cost.half.toFixed(1)}`
    return [[side, label, seconds(of(meanMs)), seconds(of(p99Ms)), `${of(dollars)!.toFixed(1)}${half}`]]
  }
  return {
    title: 'Ablation: heavy-tailed traces, mean over devices, prices and budgets',
    head: ['constrained', 'parts', 'mean TTFT s', 'P99 TTFT s', '$ per 10⁶ answers'],
    rows: constrainedSides.flatMap((side) => {
      const { disco, stochastic } = comparedMethods[side]
      return [
        ...row('both', side, disco, migrating),
        ...row('dispatch alone', side, disco, alone),
        ...row('migration alone', side, stochastic, migrating),
        ...row('neither', side, stochastic, alone),
      ]
    }),
  }
}

function liveTable(document: BenchDocument): Table {
  const cells = (values: readonly number[], ratio: number, digits: number) => [
    values.map((value) => value.toFixed(digits)).join(' / '),
    ratio.toFixed(3),
  ]
  return {
    title: 'Real streams and their replay: means of TTFT, of the time to the last token, and of the cost',
    head: ['method', 'answers', 'migrated', 'TTFT s', 'ratio', 'whole s', 'ratio', '$ per 10⁶ answers', 'ratio'],
    rows: liveRatios(liveRuns(document)).map(({ method, runs, ratios }) => {
      const both = (value: (figures: LiveFigures) => number) => [
        mean(runs.map(({ live }) => value(live)))!,
        mean(runs.map(({ replay }) => value(replay)))!,
      ]
      const migrated = both(({ hasMigrated }) => Number(hasMigrated)).map((share) => (share * runs.length).toFixed(0))
      return [
        method,
        String(runs.length),
        migrated.join(' / '),
        ...cells(
          both(({ ttftMs }) => ttftMs / 1_000),
          ratios.ttftMs,
          3,
        ),
        ...cells(
          both(({ tookMs }) => tookMs / 1_000),
          ratios.tookMs,
          2,
        ),
        ...cells(
          both(({ dollars }) => 1e6 * dollars),
          ratios.dollars,
          1,
        ),
      ]
    }),
  }
}
