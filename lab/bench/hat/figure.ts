import type { BenchDocument } from '../../frame/bench.ts'
import { barsOf, distinct, measured, runsBy, select } from '../../frame/runs.ts'
import type { BarPanel, Figure, LinePanel } from '../../plot/plot.ts'
import { type FigureName, medianOf, runsOf, validRuns } from './figures.ts'
import type { HatRun, Sample } from './runs.ts'
import { compared } from './strategies.ts'
import { type WorkloadName, workloadNames } from './workload.ts'

/** The counterpart of the paper's Figs. 6 to 10. */
export function hatFigure(document: BenchDocument): Figure {
  const { conditions } = document
  return {
    title: 'HAT and its baselines on shaped links',
    subtitle: `${conditions.model}; round trip ${conditions.rttMs} ms, rates scaled to ${conditions.stateBytes} bytes per state; medians over seeds`,
    columns: 5,
    panels: workloadNames.flatMap((workload) => {
      const runs = validRuns(runsOf(document), { workload })
      return [
        byRate(runs, workload, 'ttftMs', 'TTFT'),
        byRate(runs, workload, 'tbtMs', 'TBT'),
        stepDelays(runs, workload),
        slaPanel(runs, workload, 'prefill', ({ ttftMs, promptTokens }) => (ttftMs * 128) / promptTokens),
        slaPanel(runs, workload, 'decode', ({ tbtMs }) => (tbtMs === null ? null : 10 * tbtMs)),
      ]
    }),
  }
}

const loadedBy = (runs: readonly HatRun[]) => runsBy(select(runs, { measured: 'loaded' }), 'strategy', compared)

function byRate(runs: readonly HatRun[], workload: WorkloadName, figure: FigureName, name: string): LinePanel {
  const series = loadedBy(runs).map(({ name, runs: loaded }) => {
    const all = [...loaded, ...select(runs, { measured: 'rates', strategy: name })]
    const rates = distinct(all, 'perS').sort((a, b) => (a ?? 0) - (b ?? 0))
    const values = measured(rates, (perS) => medianOf(select(all, { perS }), figure))
    return { name, points: values.map(([perS, value]) => [Number((perS ?? 0).toPrecision(3)), value] as const) }
  })
  return {
    kind: 'lines',
    title: `${name}, ${workload} prompts`,
    xLabel: 'requests per second, all devices',
    yLabel: `${name}, ms`,
    series,
  }
}

function stepDelays(runs: readonly HatRun[], workload: WorkloadName): BarPanel {
  const loaded = select(runs, { measured: 'loaded' })
  const bars = (figure: FigureName) => barsOf(compared, (strategy) => medianOf(select(loaded, { strategy }), figure))
  return {
    kind: 'bars',
    title: `Delay of a cloud step, ${workload}`,
    yLabel: 'ms',
    groups: [
      { label: 'mean', bars: bars('stepMs') },
      { label: 'standard deviation', bars: bars('stepDeviationMs') },
    ],
  }
}

/** Share of requests within a delay limit, by the limit. */
function slaPanel(
  runs: readonly HatRun[],
  workload: WorkloadName,
  phase: 'prefill' | 'decode',
  delay: (sample: Sample) => number | null,
): LinePanel {
  const delays = loadedBy(runs).map(({ name, runs: own }) => ({
    name,
    values: own.flatMap(({ samples }) => samples.flatMap((sample) => delay(sample) ?? [])),
  }))
  const all = delays.flatMap(({ values }) => values).sort((a, b) => a - b)
  const longest = all[Math.floor(0.97 * all.length)] ?? 1
  const step = Number((longest / 8).toPrecision(1)) || 1
  const limits = Array.from({ length: 9 }, (_, i) => (i + 1) * step)
  return {
    kind: 'lines',
    title: `Requests within a limit: ${phase}, ${workload}`,
    xLabel: phase === 'prefill' ? 'ms per 128 prompt tokens' : 'ms per 10 tokens',
    yLabel: 'percent of requests',
    series: delays.map(({ name, values }) => ({
      name,
      points: limits.map((limit) => [
        Number(limit.toPrecision(3)),
        values.length === 0 ? 0 : (100 * values.filter((value) => value <= limit).length) / values.length,
      ]),
    })),
  }
}
