import type { BenchDocument } from '../../frame/bench.ts'
import type { BarPanel, Figure, LinePanel } from '../../plot/plot.ts'
import { type FigureName, medianOf, select } from './figures.ts'
import { methodNames } from './methods.ts'
import { paperLoad } from './plan.ts'
import type { Measured, PiceRun } from './runs.ts'
import { loadsOf, runsOf } from './tables.ts'

/** The counterpart of the paper's Figs. 12, 13 and 14, with tokens and quality. */
export function piceFigure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  const load = paperLoad.toFixed(2)
  const panels = [
    byLoad(runs, 'Throughput by load', 'answers/min', 'answersPerMin'),
    byLoad(runs, 'Mean latency by load', 's', 'latencyMeanS'),
    byLoad(runs, 'P95 latency by load', 's', 'latencyP95S'),
    bySetting(runs, 'queue length', 'Throughput by queue length', 'answers/min', 'answersPerMin'),
    bySetting(runs, 'queue length', 'Mean latency by queue length', 's', 'latencyMeanS'),
    atPaperLoad(runs, `Tokens of the LLM per answer, load ${load}`, 'tokens', 'cloudTokens'),
    bySetting(runs, 'bandwidth', 'Throughput by bandwidth', 'answers/min', 'answersPerMin'),
    bySetting(runs, 'bandwidth', 'Mean latency by bandwidth', 's', 'latencyMeanS'),
    atPaperLoad(runs, `ROUGE-1 against the LLM's full answers, load ${load}`, 'F', 'rouge1'),
  ]
  return {
    title: 'PICE and its baselines',
    subtitle: `${document.conditions.model} in an emulated cloud, four device processes; load is the rate of requests over the cloud's capacity`,
    columns: 3,
    panels: panels.filter((panel) => (panel.kind === 'bars' ? panel.groups.length > 0 : panel.series.length > 0)),
  }
}

function byLoad(runs: readonly PiceRun[], title: string, yLabel: string, figure: FigureName): LinePanel {
  const series = methodNames.flatMap((method) => {
    const own = select(runs, { measured: 'compared', method })
    const points = loadsOf(own).flatMap((load) => {
      const value = medianOf(select(own, { load }), figure)
      return value === null ? [] : [[load, value] as const]
    })
    return points.length === 0 ? [] : [{ name: method, points }]
  })
  return { kind: 'lines', title, xLabel: "requests over the cloud's capacity", yLabel, series }
}

function bySetting(runs: readonly PiceRun[], measured: Measured, title: string, yLabel: string, figure: FigureName): BarPanel {
  const groups = select(runs, { measured }).flatMap((run) => {
    const value = medianOf([run], figure)
    return value === null ? [] : [{ label: labelOf(run), bars: [{ name: run.method, value }] }]
  })
  return { kind: 'bars', title, yLabel, groups }
}

const labelOf = ({ measured, setting }: PiceRun): string =>
  measured === 'bandwidth' ? `${(setting ?? 0) / 1_000} kB/s` : `${setting} per device`

function atPaperLoad(runs: readonly PiceRun[], title: string, yLabel: string, figure: FigureName): BarPanel {
  const groups = methodNames.flatMap((method) => {
    const value = medianOf(select(runs, { measured: 'compared', method, load: paperLoad }), figure)
    return value === null ? [] : [{ label: method, bars: [{ name: method, value }] }]
  })
  return { kind: 'bars', title, yLabel, groups }
}
