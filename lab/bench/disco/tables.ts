import type { ReportedSide } from '../../../core/policy/disco/state.ts'
import type { BenchDocument, Table } from '../../frame/bench.ts'
import { distinct, select } from '../../frame/runs.ts'
import { groupBy, intervalOf, mean, meanBy } from '../../frame/statistics.ts'
import { type Column, tableOf, toDigits, toPercent } from '../../frame/tables.ts'
import { maxOutputTokens, type PromptSet, promptSets } from './data.ts'
import {
  comparisonsOf,
  heavyOf,
  isHeavy,
  type LiveRatios,
  liveRatios,
  meanOf,
  migratedRuns,
  savingsOf,
  type TraceFigures,
} from './figures.ts'
import type { LiveFigures, LiveRun } from './live.ts'
import { comparedMethods, constrainedSides } from './methods.ts'
import type { WireRun } from './over-wire.ts'
import { type CostFigures, type CostRun, type PerSeed, type TtftRun, valuesOf } from './runs.ts'

type Run = TtftRun | CostRun | LiveRun | WireRun
export const ttftRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'ttft')
export const costRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'cost')
export const liveRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'live')
export const wireRuns = ({ runs }: BenchDocument) => (runs as readonly Run[]).filter((run) => run.measured === 'wire')
export const tracesOf = ({ conditions }: BenchDocument) => conditions.traces as readonly TraceFigures[]

export const tablesOf = (document: BenchDocument): Table[] => [
  traceTable(tracesOf(document)),
  ...promptSets.map((prompts) => cutTable(document, prompts)),
  budgetTable(document),
  migrationTable(document),
  savingTable(document),
  ablationTable(document),
  liveTable(document),
  wireTable(wireRuns(document)),
]

const seconds = (ms: number | null, digits = 2) => toDigits(ms === null ? null : ms / 1_000, digits)
const percent = (share: number | null) => toPercent(share, 1)

const traceTable = (traces: readonly TraceFigures[]): Table =>
  tableOf('Traces of servers, heavy-tailed first', inOrder(traces), [
    ['trace', ({ name }) => name],
    ['requests', ({ requests }) => String(requests)],
    ['failed', ({ failed }) => String(failed)],
    ['median TTFT s', ({ medianMs }) => seconds(medianMs)],
    ['P99 s', ({ p99Ms }) => seconds(p99Ms)],
    ['P99 / median', ({ tail }) => toDigits(tail, 1)],
    ['P99 of token gaps s', ({ tokenP99Ms }) => seconds(tokenP99Ms, 3)],
    ['', (trace) => (isHeavy(trace) ? 'heavy-tailed' : 'steady')],
  ])

export const inOrder = (traces: readonly TraceFigures[]): TraceFigures[] =>
  [...traces].sort((a, b) => Number(isHeavy(b)) - Number(isHeavy(a)) || a.name.localeCompare(b.name))

/** A row for each trace and limited side that has something to show. */
interface SideRow<Item> {
  readonly trace: TraceFigures
  readonly constrained: ReportedSide
  readonly own: readonly Item[]
}

const sideRows = <Item extends { readonly trace: string }>(
  document: BenchDocument,
  itemsOf: (side: ReportedSide) => readonly Item[],
): SideRow<Item>[] =>
  inOrder(tracesOf(document)).flatMap((trace) =>
    constrainedSides.flatMap((constrained) => {
      const own = itemsOf(constrained).filter((item) => item.trace === trace.name)
      return own.length === 0 ? [] : [{ trace, constrained, own }]
    }),
  )

const sideColumns: readonly Column<SideRow<unknown>>[] = [
  ['trace', ({ trace }) => (isHeavy(trace) ? `**${trace.name}**` : trace.name)],
  ['constrained', ({ constrained }) => constrained],
]

/** The paper's Table 2. */
function cutTable(document: BenchDocument, prompts: PromptSet): Table {
  const all = select(comparisonsOf(ttftRuns(document)), { prompts })
  type Row = SideRow<(typeof all)[number]>
  const cut = (own: Row['own']) => percent(meanBy(own, ({ p99Cut }) => p99Cut))
  return tableOf<Row>(
    `Cut of the P99 TTFT against stochastic dispatch, mean over budgets (Table 2), prompts of ${prompts}`,
    sideRows(document, (constrained) => select(all, { constrained })),
    [
      ...sideColumns,
      ...distinct(all, 'device').map((device): Column<Row> => [device, ({ own }) => cut(select(own, { device }))]),
      ['mean', ({ own }) => cut(own)],
      [
        'mean TTFT over stochastic',
        ({ own }) =>
          toDigits(
            meanBy(own, ({ meanRatio }) => meanRatio),
            3,
          ),
      ],
    ],
  )
}

/** Of heavy-tailed traces, with the lengths of the Alpaca data. */
function heavyRuns<Of extends TtftRun | CostRun>(
  document: BenchDocument,
  runs: readonly Of[],
  isAlpaca: (run: Of) => boolean,
): Of[] {
  const heavy = heavyOf(tracesOf(document))
  return runs.filter((run) => heavy.has(run.trace) && isAlpaca(run))
}

/** Mean and P99 by budget, over all heavy-tailed traces and devices, with intervals over seeds. */
function budgetTable(document: BenchDocument): Table {
  const runs = heavyRuns(document, ttftRuns(document), ({ prompts }) => prompts === 'alpaca')
  const groups = groupBy(runs, ({ budget, method }) => `${budget} ${method}`)
  const budgetOf = ([run]: readonly TtftRun[]) => toDigits(run!.budget, 1)
  return tableOf(
    'TTFT by budget, mean over heavy-tailed traces and devices, ± 95 % interval over seeds',
    groups.sort((a, b) => budgetOf(a).localeCompare(budgetOf(b))),
    [
      ['b', budgetOf],
      ['method', ([run]) => run!.method],
      ['mean s', (group) => withInterval(group.map(({ meanMs }) => meanMs))],
      ['P99 s', (group) => withInterval(group.map(({ p99Ms }) => p99Ms))],
      ['share of the constrained side', (group) => percent(meanBy(group, ({ share }) => meanOf(share)))],
    ],
  )
}

function bySeed(series: readonly PerSeed[]): number[] {
  const values = series.map(valuesOf)
  return (values[0] ?? []).map((_, seed) => mean(values.map((each) => each[seed]!)) ?? Number.NaN)
}

/** The mean over settings of each seed, then over seeds. */
function withInterval(series: readonly PerSeed[]): string {
  const interval = intervalOf(bySeed(series))
  return interval?.half == null ? seconds(interval?.mean ?? null) : `${seconds(interval.mean)} ± ${seconds(interval.half)}`
}

/** The paper's Table 3. */
function migrationTable(document: BenchDocument): Table {
  const runs = select(costRuns(document), { lengths: 'alpaca' })
  const of = (own: readonly CostRun[], figure: keyof CostFigures) => meanBy(own, (run) => meanOf(run[figure]))
  return tableOf<SideRow<CostRun>>(
    'Answers that migrated (Table 3), mean over devices, prices and budgets',
    sideRows(document, (side) => migratedRuns(runs, side)),
    [
      ...sideColumns,
      ['migrated', ({ own }) => percent(of(own, 'migrated'))],
      ['given up, per answer', ({ own }) => toDigits(of(own, 'failedMigrations'), 2)],
      ['delayed tokens, mean', ({ own }) => toDigits(of(own, 'delayedMean'), 2)],
      ['P99', ({ own }) => toDigits(of(own, 'delayedP99'), 2)],
      ['P99 TBT s', ({ own }) => seconds(of(own, 'tbtP99Ms'), 3)],
    ],
  )
}

/** The paper's Fig. 7, as numbers. */
function savingTable(document: BenchDocument): Table {
  const groups = groupBy(
    savingsOf(costRuns(document)),
    ({ prices, lengths, constrained }) => `${lengths} ${prices} ${constrained}`,
  )
  const rows = groups.map((group) => ({ group, best: group.reduce((a, b) => (b.cut > a.cut ? b : a)) }))
  return tableOf('Cost saved by migration, against the same without it', rows, [
    ['answer lengths', ({ best }) => (best.lengths === 'limit' ? `all ${maxOutputTokens}` : 'of the data')],
    ['prices', ({ best }) => best.prices],
    ['constrained', ({ best }) => best.constrained],
    ['mean', ({ group }) => percent(meanBy(group, ({ cut }) => cut))],
    ['largest', ({ best }) => percent(best.cut)],
    ['with trace', ({ best }) => best.trace],
    ['device', ({ best }) => best.device],
    ['b', ({ best }) => toDigits(best.budget, 1)],
  ])
}

/** Figures of a cost run with migration, and without it. */
const withMigration = { dollars: 'dollars', meanMs: 'meanMs', p99Ms: 'p99Ms' } as const
const withoutMigration = { dollars: 'dollarsAlone', meanMs: 'meanMsAlone', p99Ms: 'p99MsAlone' } as const

/** Dispatch alone, migration alone, both and neither. */
function ablationTable(document: BenchDocument): Table {
  const runs = heavyRuns(document, costRuns(document), ({ lengths }) => lengths === 'alpaca')
  const rows = constrainedSides.flatMap((side) => {
    const { disco, stochastic } = comparedMethods[side]
    return [
      { side, parts: 'both', method: disco, figures: withMigration },
      { side, parts: 'dispatch alone', method: disco, figures: withoutMigration },
      { side, parts: 'migration alone', method: stochastic, figures: withMigration },
      { side, parts: 'neither', method: stochastic, figures: withoutMigration },
    ].flatMap((row) => {
      const own = select(runs, { method: row.method })
      const of = (figure: 'meanMs' | 'p99Ms') => seconds(meanBy(own, (run) => meanOf(run[row.figures[figure]])))
      const dollars = own.map((run) => run[row.figures.dollars])
      return own.length === 0 ? [] : [{ ...row, of, dollars }]
    })
  })
  return tableOf('Ablation: heavy-tailed traces, mean over devices, prices and budgets', rows, [
    ['constrained', ({ side }) => side],
    ['parts', ({ parts }) => parts],
    ['mean TTFT s', ({ of }) => of('meanMs')],
    ['P99 TTFT s', ({ of }) => of('p99Ms')],
    [
      '$ per 10⁶ answers',
      ({ dollars }) => {
        const half = intervalOf(bySeed(dollars))?.half
        return toDigits(meanBy(dollars, meanOf), 1) + (half == null ? '' : ` ± ${toDigits(half, 1)}`)
      },
    ],
  ])
}

function liveTable(document: BenchDocument): Table {
  const both = ({ runs }: LiveRatios, value: (figures: LiveFigures) => number, digits: number) =>
    (['live', 'replay'] as const)
      .map((by) =>
        toDigits(
          meanBy(runs, (run) => value(run[by])),
          digits,
        ),
      )
      .join(' / ')
  return tableOf(
    'Real streams and their replay: means of TTFT, of the time to the last token, and of the cost',
    liveRatios(liveRuns(document)),
    [
      ['method', ({ method }) => method],
      ['answers', ({ runs }) => String(runs.length)],
      ['migrated', (own) => both(own, ({ hasMigrated }) => Number(hasMigrated) * own.runs.length, 0)],
      ['TTFT s', (own) => both(own, ({ ttftMs }) => ttftMs / 1_000, 3)],
      ['ratio', ({ ratios }) => toDigits(ratios.ttftMs, 3)],
      ['whole s', (own) => both(own, ({ tookMs }) => tookMs / 1_000, 2)],
      ['ratio', ({ ratios }) => toDigits(ratios.tookMs, 3)],
      ['$ per 10⁶ answers', (own) => both(own, ({ dollars }) => 1e6 * dollars, 1)],
      ['ratio', ({ ratios }) => toDigits(ratios.dollars, 3)],
    ],
  )
}

const wireTable = (runs: readonly WireRun[]): Table =>
  tableOf('Answers of a server that charges for tokens, at real sockets', runs, [
    ['server', ({ server }) => server],
    ['requests', ({ requests }) => String(requests)],
    ['served', ({ served }) => String(served)],
    ['cap $', ({ capDollars }) => String(capDollars)],
    ['books $', ({ booksDollars }) => toDigits(booksDollars, 5)],
    ['over the wire $', ({ wireDollars }) => toDigits(wireDollars, 5)],
    ['ratio', ({ booksDollars, wireDollars }) => toDigits(booksDollars / wireDollars, 3)],
    ['longest wait s', ({ maxGapS }) => toDigits(maxGapS, 2)],
  ])
