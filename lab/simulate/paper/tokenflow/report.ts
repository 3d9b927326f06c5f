import type { BenchDocument, BenchReport, Table } from '../../../frame/bench.ts'
import { markdownTable } from '../../../frame/page.ts'
import type { BarPanel, Figure, LinePanel } from '../../../plot/plot.ts'
import { comparisonTables } from '../comparison.ts'
import { ablated, bursts, leftOut, long, onA6000, onH200, poissons } from './cases.ts'
import { cellsOf, type Metric, means, shortNames, units } from './cells.ts'
import type { FlowRun } from './runs.ts'
import {
  defaultTokensPerS,
  isRecording,
  lengthDeviation,
  recordings,
  type ServerName,
  type SetupName,
  servers,
  setups,
} from './setups.ts'

const serverNames = Object.keys(servers) as ServerName[]
const shown: readonly Metric[] = [
  'effectivePerS',
  'rawPerS',
  'meanTtftS',
  'p50TtftS',
  'p99TtftS',
  'stalledS',
  'qos',
  'totalS',
  'preemptions',
  'movedGb',
]
const runsOf = (document: BenchDocument) => document.runs as readonly FlowRun[]

export const tokenFlowPaperReport: BenchReport = {
  title: 'TokenFlow’s figures, simulated',
  contents: 'every run',
  figure,
  figureText: 'Throughput and TTFT of bursts and Poisson arrivals, and the ablation',
  tables: (document) => [...comparisonTables(cellsOf(runsOf(document))), valueTable(document)],
  conditions,
}

/** The paper's figures are bars without numbers: these are ours. */
function valueTable(document: BenchDocument): Table {
  const runs = runsOf(document)
  const mean = means(runs)
  const recorded = hasRecordings(runs) ? [...onA6000, ...onH200] : []
  return {
    title: 'Figs. 12 to 17, all values',
    head: [
      'set-up',
      'server',
      ...shown.map((metric) => (units[metric] ? `${shortNames[metric]}, ${units[metric]}` : shortNames[metric])),
    ],
    rows: [...recorded, ...bursts, ...poissons].flatMap((setup) =>
      serverNames.map((server) => [
        setup,
        server,
        ...shown.map((metric) => String(Number(mean({ setup, server }, metric).toPrecision(4)))),
      ]),
    ),
  }
}

const hasRecordings = (runs: readonly FlowRun[]) => runs.some(({ setup }) => isRecording(setup))

/** Figs. 14 and 15. */
const timelinePanel = (runs: readonly FlowRun[], which: 'queued' | 'running'): LinePanel => ({
  kind: 'lines',
  title: `${long}: requests ${which}`,
  xLabel: 'seconds',
  yLabel: '',
  isDense: true,
  series: runs.flatMap(({ server, timeline }) =>
    timeline
      ? [{ name: server, points: timeline[which].map((count, at): [number, number] => [at * timeline.everyS, count]) }]
      : [],
  ),
})

function figure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  const mean = means(runs)
  const panel = (title: string, names: readonly SetupName[], metric: Metric): BarPanel => ({
    kind: 'bars',
    title: `${title}: ${shortNames[metric]}`,
    yLabel: units[metric],
    groups: names.map((setup) => ({
      label: setup,
      bars: serverNames.map((server) => ({ name: server, value: mean({ setup, server }, metric) })),
    })),
  })
  const metrics = ['effectivePerS', 'rawPerS', 'meanTtftS', 'p99TtftS'] as const
  return {
    title: 'TokenFlow’s Figs. 12 to 17 and Table 2, simulated',
    subtitle: `Qwen2-7B on an RTX 4090, Llama3-8B on an H200; readers of ${defaultTokensPerS} tokens/s`,
    columns: 2,
    panels: [
      ...metrics.flatMap((metric) => [panel('Burst', bursts, metric), panel('Poisson', poissons, metric)]),
      ...(hasRecordings(runs)
        ? [
            panel('Recorded', [...onA6000, ...onH200], 'effectivePerS'),
            panel('Recorded', [...onA6000, ...onH200], 'meanTtftS'),
            timelinePanel(runs, 'queued'),
            timelinePanel(runs, 'running'),
          ]
        : []),
      {
        kind: 'bars',
        title: `Table 2, ${ablated}: total`,
        yLabel: 's',
        groups: [undefined, ...leftOut].map((without) => ({
          label: without ? `without ${without}` : 'all',
          bars: (['TokenFlow', 'Brim'] as const).map((server) => ({
            name: server,
            value: mean({ setup: ablated, server, ...(without && { without }) }, 'totalS'),
          })),
        })),
      },
    ],
  }
}

function conditions({ conditions: { seeds } }: BenchDocument): string {
  const rows = [
    ...Object.entries(setups).map(([name, setup]) => [
      ...[name, setup.gpu, setup.model, String(setup.memoryShare)],
      'perS' in setup ? `${setup.requests}, ${setup.perS}/s` : `${setup.requests} at once`,
      ...[String(setup.promptTokens), String(setup.outputTokens)],
    ]),
    ...Object.entries(recordings).map(([name, { gpu, model, memoryShare, requests, file, skipS, speed }]) => [
      ...[name, gpu, model, String(memoryShare)],
      `${requests} of ${file} from ${skipS} s on, ${speed} times as fast`,
      ...['recorded', 'recorded'],
    ]),
  ]
  const servedBy = Object.entries(servers).map(([name, server]) => [
    name,
    Object.entries(server)
      .map(([key, value]) => `\`${key}: ${value}\``)
      .join(', '),
  ])
  return `Simulated on a virtual clock, with the policies of \`core/policy\` as the bridge runs them; ${seeds} seeds, of which the
tables show the mean. Lengths are normal with a deviation of ${lengthDeviation} of the mean, readers take ${defaultTokensPerS} tokens/s: the paper states neither. Its
Poisson arrivals have no stated end; these last a minute.

${markdownTable(['set-up', 'GPU', 'model', 'memory share', 'requests', 'prompt tokens', 'output tokens'], rows)}

The paper names no model for the RTX 4090. Of its three, Qwen2.5-32B does not fit, and Llama3-8B leaves memory for the KV of 25 answers
at once, with which no step is fast enough for the totals of its Table 2; Qwen2-7B it is. Rates of GPUs are those of
[the presets](../../../lab/simulate/hardware/presets/gpus.ts), the same for all of the papers.

${markdownTable(['server', 'settings of the scenario’s cloud'], servedBy)}

- SGLang reserves memory as its defaults say: for a running answer 70 % of what it lacks to its greatest length, less with each step, and
  what is preempted is computed again, as with Andes.
- *TokenFlow* is the paper’s: a plan takes 0.4 ms, and no step begins while KV moves. *Brim* plans within 0.1 ms and moves KV beside the
  steps; both choose by one policy, with Brim’s bounds on waiting.
- Figs. 12 to 15: **other recordings than the paper’s** stand in for BurstGPT and for the trace of a provider, neither of which is in our
  data: the conversations of azure-llm-2023 (1,140 prompt tokens, 212 of answers) and of Mooncake (11,700 and 343), at 1.2 times the load
  that SGLang serves. Andes is left out of Figs. 14 and 15.`
}
