import type { ReportedSide } from '../../../../core/policy/disco/state.ts'
import type { BenchDocument } from '../../../frame/bench.ts'
import type { Figure, LinePanel, Series } from '../../../plot/plot.ts'
import { costRuns, ttftRuns } from './cells.ts'
import type { CostRun, TtftRun } from './runs.ts'
import { paperServers } from './servers.ts'
import { constrainedSides, type Method } from './settings.ts'

/** The counterpart of the paper's Figs. 6 and 7. */
export function paperFigure(document: BenchDocument): Figure {
  const ttft = ttftRuns(document)
  const cost = costRuns(document)
  const panels = constrainedSides.flatMap((side) => [
    ...paperServers.map(({ name }) => ttftPanel(name, side, ttft)),
    ...paperServers.map(({ name }) => costPanel(name, side, cost)),
  ])
  return {
    title: 'DiSCo Figs. 6 and 7, simulated',
    subtitle: 'Mean TTFT and cost by budget, means over the three devices',
    columns: paperServers.length,
    panels,
  }
}

const methodNames: Readonly<Record<Method, string>> = { plan: 'DiSCo', beside: 'chance beside', alone: 'chance' }

function ttftPanel(server: string, side: ReportedSide, runs: readonly TtftRun[]): LinePanel {
  const own = runs.filter((run) => run.server === server && run.constrained === side)
  const series = (['plan', 'beside', 'alone'] as const).map(
    (method): Series => ({
      name: methodNames[method],
      points: byBudget(
        own.filter((run) => run.method === method),
        ({ meanMs }) => meanMs / 1_000,
      ),
    }),
  )
  return { kind: 'lines', title: `${server}, ${side} limited`, xLabel: 'budget b', yLabel: 'mean TTFT, s', series }
}

function costPanel(server: string, side: ReportedSide, runs: readonly CostRun[]): LinePanel {
  const own = runs.filter((run) => run.server === server && run.constrained === side)
  const names = { paper: 'with migration', no: 'without migration' } as const
  const series = (['paper', 'no'] as const).map(
    (migrates): Series => ({
      name: names[migrates],
      points: byBudget(
        own.filter((run) => run.migrates === migrates),
        ({ dollars }) => dollars,
      ),
    }),
  )
  return { kind: 'lines', title: `${server}, ${side} limited`, xLabel: 'budget b', yLabel: '$ per 10⁶ answers', series }
}

function byBudget<Run extends TtftRun | CostRun>(runs: readonly Run[], value: (run: Run) => number): Series['points'] {
  const budgets = [...new Set(runs.map(({ budget }) => budget))].sort((a, b) => a - b)
  return budgets.map((budget) => {
    const values = runs.filter((run) => run.budget === budget).map(value)
    return [budget, values.reduce((sum, each) => sum + each, 0) / values.length] as const
  })
}
