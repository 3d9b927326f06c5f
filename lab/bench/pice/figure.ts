import type { BenchDocument } from '../../frame/bench.ts'
import { measured, runsBy, select } from '../../frame/runs.ts'
import type { BarPanel, Figure, LinePanel } from '../../plot/plot.ts'
import { type FigureName, medianOf, runsOf } from './figures.ts'
import { methodNames } from './methods.ts'
import { paperLoad } from './plan.ts'
import type { PiceRun } from './runs.ts'
import { loadsOf } from './tables.ts'

/** The counterpart of the paper's Figs. 12, 13 and 14, with tokens and quality. */
export function piceFigure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  const load = paperLoad.toFixed(2)
  return {
    title: 'PICE and its baselines',
    subtitle: `${document.conditions.model} in an emulated cloud, four device processes; load is the rate of requests over the cloud's capacity`,
    columns: 3,
    panels: [
      byLoad(runs, 'Throughput by load', 'answers/min', 'answersPerMin'),
      byLoad(runs, 'Mean latency by load', 's', 'latencyMeanS'),
      byLoad(runs, 'P95 latency by load', 's', 'latencyP95S'),
      bySetting(runs, 'queue length', 'Throughput by queue length', 'answers/min', 'answersPerMin'),
      bySetting(runs, 'queue length', 'Mean latency by queue length', 's', 'latencyMeanS'),
      atPaperLoad(runs, `Tokens of the LLM per answer, load ${load}`, 'tokens', 'cloudTokens'),
      bySetting(runs, 'bandwidth', 'Throughput by bandwidth', 'answers/min', 'answersPerMin'),
      bySetting(runs, 'bandwidth', 'Mean latency by bandwidth', 's', 'latencyMeanS'),
      atPaperLoad(runs, `ROUGE-1 against the LLM's full answers, load ${load}`, 'F', 'rouge1'),
    ],
  }
}

function byLoad(all: readonly PiceRun[], title: string, yLabel: string, figure: FigureName): LinePanel {
  const series = runsBy(select(all, { measured: 'compared' }), 'method', methodNames).map(({ name, runs }) => ({
    name,
    points: measured(loadsOf(runs), (load) => medianOf(select(runs, { load }), figure)),
  }))
  const drawn = series.filter(({ points }) => points.length > 0)
  return { kind: 'lines', title, xLabel: "requests over the cloud's capacity", yLabel, series: drawn }
}

function bySetting(
  runs: readonly PiceRun[],
  what: 'queue length' | 'bandwidth',
  title: string,
  yLabel: string,
  figure: FigureName,
): BarPanel {
  const values = measured(select(runs, { measured: what }), (run) => medianOf([run], figure))
  const groups = values.map(([run, value]) => ({ label: labelOf(run), bars: [{ name: run.method, value }] }))
  return { kind: 'bars', title, yLabel, groups }
}

const labelOf = ({ measured: what, setting }: PiceRun): string =>
  what === 'bandwidth' ? `${(setting ?? 0) / 1_000} kB/s` : `${setting} per device`

function atPaperLoad(all: readonly PiceRun[], title: string, yLabel: string, figure: FigureName): BarPanel {
  const methods = runsBy(select(all, { measured: 'compared', load: paperLoad }), 'method', methodNames)
  const values = measured(methods, ({ runs }) => medianOf(runs, figure))
  return { kind: 'bars', title, yLabel, groups: values.map(([{ name }, value]) => ({ label: name, bars: [{ name, value }] })) }
}
