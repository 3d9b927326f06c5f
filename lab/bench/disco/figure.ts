import type { ReportedSide } from '../../../core/policy/disco/state.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { distinct, runsBy, select } from '../../frame/runs.ts'
import { meanBy } from '../../frame/statistics.ts'
import type { Figure, LinePanel, Series } from '../../plot/plot.ts'
import { isHeavy, meanOf } from './figures.ts'
import { comparedMethods, constrainedSides, type MethodName } from './methods.ts'
import type { CostRun, TtftRun } from './runs.ts'
import { costRuns, inOrder, tracesOf, ttftRuns } from './tables.ts'

/** The counterpart of the paper's Figs. 6 and 7. */
export function discoFigure(document: BenchDocument): Figure {
  const ttft = select(ttftRuns(document), { prompts: 'alpaca' })
  const cost = select(costRuns(document), { lengths: 'limit' })
  const traces = inOrder(tracesOf(document))
  const heavy = traces.filter(isHeavy).map(({ name }) => name)
  const steady = traces.filter((trace) => !isHeavy(trace)).map(({ name }) => name)
  return {
    title: 'DiSCo and its baselines by budget',
    subtitle: "Replay of recorded API latencies with the paper's devices; means over devices and seeds",
    columns: 4,
    panels: [
      ...heavy.flatMap((trace) => ttftPanels(trace, ttft, [trace])),
      ...ttftPanels('steady traces', ttft, steady),
      ...constrainedSides.flatMap((side) => costPanels(cost, side)),
    ],
  }
}

/** Fig. 6, with the P99 beside the mean. */
function ttftPanels(title: string, runs: readonly TtftRun[], traces: readonly string[]): LinePanel[] {
  const own = runs.filter(({ trace }) => traces.includes(trace))
  return constrainedSides.flatMap((side) =>
    (['meanMs', 'p99Ms'] as const).map((what): LinePanel => {
      const { stochastic, disco } = comparedMethods[side]
      const value = (run: TtftRun) => meanOf(run[what]) / 1_000
      const line = (name: string, method: MethodName) => ({ name, points: byBudget(select(own, { method }), value) })
      const flat = (method: MethodName): Series => ({ name: method, points: flatLine(select(own, { method }), own, value) })
      const series = [line('stochastic', stochastic), line('DiSCo', disco), flat('server only'), flat('device only')]
      return {
        kind: 'lines',
        title: `${what === 'meanMs' ? 'Mean' : 'P99'} TTFT, ${title}, ${side} limited`,
        xLabel: 'budget b',
        yLabel: 's',
        series: series.filter(({ points }) => points.length > 0),
      }
    }),
  )
}

/** Fig. 7. */
function costPanels(runs: readonly CostRun[], side: ReportedSide): LinePanel[] {
  const own = select(runs, { method: comparedMethods[side].disco })
  return runsBy(own, 'prices').map(({ name: prices, runs: these }) => ({
    kind: 'lines',
    title: `Cost, ${prices}, ${side} limited`,
    xLabel: 'budget b',
    yLabel: '$ per 10⁶ answers',
    series: [
      { name: 'with migration', points: byBudget(these, ({ dollars }) => meanOf(dollars)) },
      { name: 'without migration', points: byBudget(these, ({ dollarsAlone }) => meanOf(dollarsAlone)) },
    ],
  }))
}

const byBudget = <Run extends TtftRun | CostRun>(runs: readonly Run[], value: (run: Run) => number): Series['points'] =>
  runsBy<TtftRun | CostRun, 'budget'>(runs, 'budget')
    .map(({ name: budget, runs: own }) => [budget ?? 0, meanBy(own as Run[], value) ?? Number.NaN] as const)
    .sort(([a], [b]) => a - b)

/** A method without a budget, at every budget of the others. */
function flatLine(runs: readonly TtftRun[], others: readonly TtftRun[], value: (run: TtftRun) => number): Series['points'] {
  const level = meanBy(runs, value)
  const budgets = distinct(others, 'budget')
    .flatMap((budget) => budget ?? [])
    .sort((a, b) => a - b)
  return level === null ? [] : budgets.map((budget) => [budget, level] as const)
}
