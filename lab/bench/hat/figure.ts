import type { BenchDocument } from '../../frame/bench.ts'
import type { BarPanel, Figure, LinePanel } from '../../plot/plot.ts'
import { type RunFigures, select } from './figures.ts'
import type { HatRun, Sample } from './runs.ts'
import { compared, type StrategyName } from './strategies.ts'
import { medianOf, runsOf } from './tables.ts'
import { type WorkloadName, workloadNames } from './workload.ts'

/** The counterpart of the paper's Figs. 6 to 10. */
export function hatFigure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  const { conditions } = document
  return {
    title: 'HAT and its baselines on shaped links',
    subtitle: `${conditions.model}; round trip ${conditions.rttMs} ms, rates scaled to ${conditions.stateBytes} bytes per state; medians over seeds`,
    columns: 5,
    panels: workloadNames.flatMap((workload) => [
      byRate(runs, workload, 'ttftMs', 'TTFT, ms'),
      byRate(runs, workload, 'tbtMs', 'TBT, ms'),
      stepDelays(runs, workload),
      slaPanel(runs, workload, 'prefill', ({ ttftMs, promptTokens }) => (ttftMs * 128) / promptTokens),
      slaPanel(runs, workload, 'decode', ({ tbtMs }) => (tbtMs === null ? null : 10 * tbtMs)),
    ]),
  }
}

const present = (runs: readonly HatRun[], workload: WorkloadName): StrategyName[] =>
  compared.filter((strategy) => select(runs, { measured: 'loaded', strategy, workload }).length > 0)

function byRate(runs: readonly HatRun[], workload: WorkloadName, figure: keyof RunFigures, yLabel: string): LinePanel {
  return {
    kind: 'lines',
    title: `${yLabel.split(',')[0]}, ${workload} prompts`,
    xLabel: 'requests per second, all devices',
    yLabel,
    series: present(runs, workload).map((strategy) => {
      const loaded = select(runs, { measured: 'loaded', strategy, workload })
      const others = select(runs, { measured: 'rates', strategy, workload })
      const all = [...new Set([...loaded, ...others].map(({ perS }) => perS ?? 0))].sort((a, b) => a - b)
      const points = all.flatMap((perS) => {
        const value = medianOf(
          [...loaded, ...others].filter((run) => run.perS === perS),
          figure,
        )
        return value === null ? [] : [[Number(perS.toPrecision(3)), value] as const]
      })
      return { name: strategy, points }
    }),
  }
}

function stepDelays(runs: readonly HatRun[], workload: WorkloadName): BarPanel {
  const bars = (figure: 'stepMs' | 'stepDeviationMs') =>
    present(runs, workload).flatMap((strategy) => {
      const value = medianOf(select(runs, { measured: 'loaded', strategy, workload }), figure)
      return value === null ? [] : [{ name: strategy, value }]
    })
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
  const delays = present(runs, workload).map((name) => ({
    name,
    values: select(runs, { measured: 'loaded', strategy: name, workload }).flatMap(({ samples }) =>
      samples.flatMap((sample) => delay(sample) ?? []),
    ),
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
