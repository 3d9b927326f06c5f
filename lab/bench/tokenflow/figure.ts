import type { BenchDocument } from '../../frame/bench.ts'
import { barsOf, measured, select } from '../../frame/runs.ts'
import type { BarPanel, Figure, LinePanel, Series } from '../../plot/plot.ts'
import { type FigureName, loadOverTime, medianOf, runsOf } from './figures.ts'
import type { FlowRun } from './runs.ts'
import { ablated, policies } from './servers.ts'
import { type WorkloadName, workloadNames, workloads } from './workload.ts'

/** The counterpart of the paper's Figs. 12 to 20. */
export function tokenFlowFigure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  const { conditions } = document
  return {
    title: 'TokenFlow and its baselines on one bridge',
    subtitle: `${conditions.model}; the KV of all requests is ${conditions.overcommitment} times the fast tier; medians over seeds`,
    columns: 4,
    panels: [
      ...(['burst', 'poisson', 'trace'] as const).flatMap((kind) => comparison(runs, kind)),
      ...overTime(runs),
      ...timelines(runs),
      ...rates(runs),
      ...ablation(runs),
    ],
  }
}

/** Figs. 12, 13, 16 and 17: four figures, by workload. */
function comparison(runs: readonly FlowRun[], kind: 'burst' | 'poisson' | 'trace'): BarPanel[] {
  const names = workloadNames.filter(
    (name) => workloads[name].arrivals.kind === kind && select(runs, { measured: 'compared', workload: name }).length > 0,
  )
  const panel = (what: string, yLabel: string, figure: FigureName): BarPanel => ({
    kind: 'bars',
    title: what,
    yLabel,
    groups: names.map((workload) => ({
      label: workload,
      bars: barsOf(policies, (server) => medianOf(select(runs, { measured: 'compared', workload, server }), figure)),
    })),
  })
  return [
    panel('Effective throughput', 'tokens/s', 'effectiveTokensPerS'),
    panel('Raw throughput', 'tokens/s', 'rawTokensPerS'),
    panel('Mean TTFT', 'ms', 'ttftMeanMs'),
    panel('P99 TTFT', 'ms', 'ttftP99Ms'),
  ]
}

/** Figs. 14 and 15: requests without a token yet, and requests under way, while a trace plays. */
function overTime(runs: readonly FlowRun[]): LinePanel[] {
  const own = firstSeed(runs, 'mooncake').length > 0 ? firstSeed(runs, 'mooncake') : firstSeed(runs, 'burst 60 SL')
  const points = 120
  const endMs = Math.max(0, ...own.flatMap(({ samples }) => samples.map((each) => each.atMs + (each.arrivedMs.at(-1) ?? 0))))
  const timesMs = Array.from({ length: points + 1 }, (_, i) => (i * endMs) / points)
  const panel = (what: 'waiting' | 'running', title: string): LinePanel => ({
    kind: 'lines',
    title: `${title}, ${own[0]?.workload ?? ''}`,
    xLabel: 's',
    yLabel: 'requests',
    isDense: true,
    series: own.map(({ server, samples }) => {
      const counts = loadOverTime(samples, timesMs)[what]
      return { name: server, points: counts.map((count, i) => [timesMs[i]! / 1_000, count] as const) }
    }),
  })
  return [panel('waiting', 'Waiting for the first token'), panel('running', 'Between first and last token')]
}

/** Fig. 18: tokens by time of a few answers of a burst, and those read by a reader that begins at once. */
function timelines(runs: readonly FlowRun[]): LinePanel[] {
  return firstSeed(runs, 'burst 60 SL')
    .filter(({ server }) => server === 'fcfs' || server === 'tokenflow')
    .map(({ server, samples }) => {
      const every = Math.max(1, Math.floor(samples.length / shownAnswers))
      const inOrder = [...samples].sort((a, b) => (a.arrivedMs[0] ?? 0) - (b.arrivedMs[0] ?? 0))
      const shown = inOrder.filter((_, i) => i % every === 0)
      const [first] = shown
      return {
        kind: 'lines',
        title: `Tokens of ${shown.length} answers, ${server}`,
        xLabel: 's',
        yLabel: 'tokens received',
        isDense: true,
        series: [
          ...shown.map((sample) => ({ name: server, points: tokensByTime(sample) })),
          ...(first ? [readerLine(first.tokensPerS, first.arrivedMs.length)] : []),
        ],
      }
    })
}

const shownAnswers = 8

/** Every fourth token. */
function tokensByTime(sample: FlowRun['samples'][number]): Series['points'] {
  return sample.arrivedMs.flatMap((atMs, i) => (i % 4 === 0 ? [[(sample.atMs + atMs) / 1_000, i + 1] as const] : []))
}

const readerLine = (tokensPerS: number, tokens: number): Series => ({
  name: 'reader',
  points: [
    [0, 0],
    [tokens / tokensPerS, tokens],
  ],
})

/** Figs. 19 and 20: two rates in one burst, and effective throughput by rate. */
function rates(runs: readonly FlowRun[]): LinePanel[] {
  const mixed = firstSeed(runs, 'rates 15 and 20').find(({ server }) => server === 'tokenflow')
  const byRate = [...new Set(mixed?.samples.map(({ tokensPerS }) => tokensPerS))]
  const series = byRate.flatMap((rate) => {
    const own = mixed?.samples.filter(({ tokensPerS }) => tokensPerS === rate) ?? []
    const tokens = Math.max(...own.map(({ arrivedMs }) => arrivedMs.length))
    return [...own.slice(0, 4).map((sample) => ({ name: 'tokenflow', points: tokensByTime(sample) })), readerLine(rate, tokens)]
  })
  const sweep = { 20: 'rate 20', 25: 'burst 60 SL', 30: 'rate 30' } as const
  const swept = policies.map((server) => ({
    name: server,
    points: measured([20, 25, 30] as const, (rate) =>
      medianOf(select(firstSeed(runs, sweep[rate]), { server }), 'effectiveTokensPerS'),
    ),
  }))
  return [
    { kind: 'lines', title: 'Readers of two rates', xLabel: 's', yLabel: 'tokens received', isDense: true, series },
    {
      kind: 'lines',
      title: 'Effective throughput by reading rate',
      xLabel: "rate, in the paper's tokens/s",
      yLabel: 'tokens/s',
      series: select(runs, { measured: 'rates' }).length === 0 ? [] : swept,
    },
  ]
}

/** Table 2. */
function ablation(runs: readonly FlowRun[]): BarPanel[] {
  const left = select(runs, { measured: 'ablation' })
  const [{ workload } = { workload: undefined }] = left
  if (workload === undefined) return []
  const totals = measured(['tokenflow', ...ablated] as const, (server) => medianOf(select(runs, { workload, server }), 'totalS'))
  const groups = totals.map(([server, value]) => ({
    label: server === 'tokenflow' ? 'all' : server,
    bars: [{ name: 'tokenflow', value }],
  }))
  return [{ kind: 'bars', title: `Time of ${workload} without a technique`, yLabel: 's', groups }]
}

function firstSeed(runs: readonly FlowRun[], workload: WorkloadName): FlowRun[] {
  const own = select(runs, { workload }).filter(({ measured }) => measured !== 'ablation')
  const seed = Math.min(...own.map((run) => run.seed))
  return own.filter((run) => run.seed === seed)
}
