import type { BenchDocument, BenchReport, Table } from '../../../frame/bench.ts'
import { markdownTable } from '../../../frame/page.ts'
import type { BarPanel, Figure } from '../../../plot/plot.ts'
import { comparisonTables } from '../comparison.ts'
import { ablated, bursts, leftOut, poissons } from './cases.ts'
import { cellsOf, type Metric, means, shortNames, units } from './cells.ts'
import type { FlowRun } from './runs.ts'
import { defaultTokensPerS, lengthDeviation, type ServerName, type SetupName, servers, setups } from './setups.ts'

const serverNames = Object.keys(servers) as ServerName[]
const shown: readonly Metric[] = [
  'effectivePerS',
  'rawPerS',
  'meanTtftS',
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

/** Figs. 16 and 17 are bars without numbers: these are ours. */
function valueTable(document: BenchDocument): Table {
  const mean = means(runsOf(document))
  return {
    title: 'Figs. 16 and 17, all values',
    head: [
      'set-up',
      'server',
      ...shown.map((metric) => (units[metric] ? `${shortNames[metric]}, ${units[metric]}` : shortNames[metric])),
    ],
    rows: [...bursts, ...poissons].flatMap((setup) =>
      serverNames.map((server) => [
        setup,
        server,
        ...shown.map((metric) => String(Number(mean({ setup, server }, metric).toPrecision(4)))),
      ]),
    ),
  }
}

function figure(document: BenchDocument): Figure {
  const mean = means(runsOf(document))
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
    title: 'TokenFlow’s Figs. 16 and 17 and Table 2, simulated',
    subtitle: `Qwen2-7B on an RTX 4090, Llama3-8B on an H200; readers of ${defaultTokensPerS} tokens/s`,
    columns: 2,
    panels: [
      ...metrics.flatMap((metric) => [panel('Burst', bursts, metric), panel('Poisson', poissons, metric)]),
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
  const rows = Object.entries(setups).map(([name, setup]) => [
    name,
    setup.gpu,
    setup.model,
    String(setup.memoryShare),
    'perS' in setup ? `${setup.requests}, ${setup.perS}/s` : `${setup.requests} at once`,
    String(setup.promptTokens),
    String(setup.outputTokens),
  ])
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
- Not simulated: Figs. 12 to 15, whose recorded requests (BurstGPT and a provider’s) are not public in full. Those of azure-llm-2023 do
  not stand in for them: their answers are short (211 tokens), so that prompts are what is scarce, which preemption does not help. On an
  H200 with Qwen2.5-32B at 1.2 times their speed, mean TTFT falls by 19 % against SGLang and effective throughput stays.`
}
