import type { BenchDocument, Table } from '../../frame/bench.ts'
import { medianOrNull } from '../../frame/statistics.ts'
import { type FigureName, figuresOf, ratioOf, select } from './figures.ts'
import type { FlowRun, Measured } from './runs.ts'
import { ablated, type ServerName } from './servers.ts'
import { type WorkloadName, workloadNames } from './workload.ts'

export const runsOf = ({ runs }: BenchDocument) => runs as readonly FlowRun[]

/** The median over seeds; null without runs. */
export function medianOf(runs: readonly FlowRun[], figure: FigureName): number | null {
  return medianOrNull(runs.flatMap((run) => figuresOf(run)[figure] ?? []))
}

export const tablesOf = (document: BenchDocument): Table[] => {
  const runs = runsOf(document)
  const tables = [
    ...workloadNames.map((workload) => policyTable(runs, 'compared', workload)),
    ...workloadNames.map((workload) => policyTable(runs, 'rates', workload)),
    ...workloadNames.map((workload) => policyTable(runs, 'crowds', workload)),
    ablationTable(runs),
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

const written = (value: number | null | undefined, digits = 1) => (value == null ? '–' : value.toFixed(digits))

const columns: readonly { readonly title: string; readonly figure: FigureName; readonly digits: number }[] = [
  { title: 'TTFT ms', figure: 'ttftMeanMs', digits: 0 },
  { title: 'p50', figure: 'ttftP50Ms', digits: 0 },
  { title: 'p99', figure: 'ttftP99Ms', digits: 0 },
  { title: 'effective tokens/s', figure: 'effectiveTokensPerS', digits: 0 },
  { title: 'tokens/s', figure: 'rawTokensPerS', digits: 0 },
  { title: 'stalls per answer', figure: 'stalls', digits: 1 },
  { title: 's stalled', figure: 'stalledS', digits: 2 },
  { title: 'QoS', figure: 'qos', digits: 0 },
  { title: 's in all', figure: 'totalS', digits: 1 },
]
const compared = ['ttftMeanMs', 'ttftP99Ms', 'effectiveTokensPerS', 'rawTokensPerS'] as const satisfies readonly FigureName[]

function policyTable(runs: readonly FlowRun[], measured: Measured, workload: WorkloadName): Table {
  const own = select(runs, { measured, workload })
  const names = [...new Set(own.map(({ server }) => server))]
  const overFcfs = (server: ServerName, figure: FigureName) => (server === 'fcfs' ? null : ratioOf(own, figure, [server, 'fcfs']))
  return {
    title: `${workload}: medians over seeds; TTFT, p99, effective and raw on the right are over fcfs`,
    head: ['policy', ...columns.map(({ title }) => title), 'TTFT', 'p99', 'effective', 'raw', 'core', 'n'],
    rows: names.map((server) => {
      const these = own.filter((run) => run.server === server)
      const n = these.reduce((sum, { samples }) => sum + samples.length, 0)
      return [
        server,
        ...columns.map(({ figure, digits }) => written(medianOf(these, figure), digits)),
        ...compared.map((figure) => written(overFcfs(server, figure), 2)),
        written(medianOrNull(these.flatMap(({ bridgeCore }) => bridgeCore ?? [])), 2),
        String(n),
      ]
    }),
  }
}

/** The paper's Table 2: its total times over that of all techniques together. */
const paper: Readonly<Record<(typeof ablated)[number], number>> = {
  'no offload': 127.28 / 66,
  'no write-through': 82.76 / 66,
  'no overlap': 74.43 / 66,
}

function ablationTable(runs: readonly FlowRun[]): Table {
  const left = select(runs, { measured: 'ablation' })
  const beside = runs.filter(({ server, workload, seed }) => {
    return server === 'tokenflow' && left.some((run) => run.workload === workload && run.seed === seed)
  })
  const all = [...left, ...beside]
  const row = (server: ServerName, ofPaper: string) => [
    server === 'tokenflow' ? 'all techniques' : server,
    ...(['totalS', 'ttftMeanMs', 'effectiveTokensPerS', 'stalledS'] as const).map((figure) =>
      written(medianOf(select(all, { server }), figure), figure === 'ttftMeanMs' ? 0 : 1),
    ),
    written(server === 'tokenflow' ? 1 : ratioOf(all, 'totalS', [server, 'tokenflow']), 2),
    ofPaper,
  ]
  return {
    title: `TokenFlow without one technique of its KV tiers, ${left[0]?.workload ?? ''}`,
    head: ['', 's in all', 'TTFT ms', 'effective tokens/s', 's stalled', 'time over all techniques', 'paper'],
    rows: left.length === 0 ? [] : [row('tokenflow', '1.00'), ...ablated.map((server) => row(server, written(paper[server], 2)))],
  }
}
