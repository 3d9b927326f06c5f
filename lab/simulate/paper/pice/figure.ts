import type { BenchDocument } from '../../../frame/bench.ts'
import type { BarPanel, Figure, LinePanel } from '../../../plot/plot.ts'
import { runOf, runsOf, select } from './cells.ts'
import { published, publishedOf } from './published.ts'
import type { Run } from './runs.ts'
import { type Measured, type Method, methods, studied } from './settings.ts'

type Value = 'answersPerMin' | 'latencyS'
const labels = { answersPerMin: 'queries/min', latencyS: 's' }

/** The counterparts of Table III and Figs. 6, 12, 13 and 14. */
export function paperFigure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  return {
    title: 'PICE, simulated on its testbed',
    subtitle:
      'Four A100 and four AGX Orin; “paper” is what PICE prints for itself; Brim adds overlap, shared prefixes and packed steps',
    columns: 3,
    panels: [
      tablePanel(runs, 'Table III: throughput over cloud-only', 'answersPerMin'),
      tablePanel(runs, 'Table III: latency over cloud-only', 'latencyS'),
      schedulingPanel(runs),
      byX(runs, 'load', 'Fig. 12: throughput', 'requests per minute', 'answersPerMin', ({ rpm }) => rpm),
      byX(runs, 'load', 'Fig. 12: latency', 'requests per minute', 'latencyS', ({ rpm }) => rpm),
      byX(runs, 'bandwidth', 'Fig. 14: latency', 'log10 of Mbit/s', 'latencyS', ({ mbitPerS }) => Math.log10(mbitPerS!)),
      byX(runs, 'queue', 'Fig. 13: throughput', 'queue length', 'answersPerMin', ({ queue }) => queue!),
      byX(runs, 'queue', 'Fig. 13: latency', 'queue length', 'latencyS', ({ queue }) => queue!),
    ],
  }
}

function tablePanel(runs: readonly Run[], title: string, value: Value): BarPanel {
  const at = value === 'answersPerMin' ? 0 : 1
  const groups = published.map(({ title, model, cloud, pice }) => {
    const over = (method: Method) =>
      runOf(runs, 'table', method, { model })[value] / runOf(runs, 'table', 'cloud-only', { model })[value]
    const bars = [
      { name: 'PICE', value: over('PICE') },
      { name: 'Brim', value: over('Brim') },
      { name: 'paper', value: pice[at] / cloud[at] },
    ]
    return { label: title.replace('Qwen2.5-', 'Q').replace('Llama3-', 'L'), bars }
  })
  return { kind: 'bars', title, yLabel: '×', groups }
}

function schedulingPanel(runs: readonly Run[]): BarPanel {
  const shown = (['cloud-only', 'routing', 'PICE static', 'PICE', 'Brim'] as const).map((method) => ({
    label: method,
    bars: [{ name: method, value: runOf(runs, 'table', method).answersPerMin }],
  }))
  return { kind: 'bars', title: `Fig. 6: throughput, ${publishedOf(studied).title}`, yLabel: labels.answersPerMin, groups: shown }
}

function byX(
  runs: readonly Run[],
  measured: Measured,
  title: string,
  xLabel: string,
  value: Value,
  x: (run: Run) => number,
): LinePanel {
  const series = methods.flatMap((method) => {
    const own = select(runs, { measured, method })
    return own.length === 0 ? [] : [{ name: method, points: own.map((run) => [x(run), run[value]] as const) }]
  })
  return { kind: 'lines', title, xLabel, yLabel: labels[value], series }
}
