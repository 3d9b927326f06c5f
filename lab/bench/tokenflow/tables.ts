import type { BenchDocument, Table } from '../../frame/bench.ts'
import { runsBy, select } from '../../frame/runs.ts'
import { sum } from '../../frame/statistics.ts'
import { type Column, tableOf, toDigits } from '../../frame/tables.ts'
import { type FigureName, medianOf, runsOf, serverRatio } from './figures.ts'
import type { FlowRun, Measured } from './runs.ts'
import { ablated, type ServerName } from './servers.ts'
import { type WorkloadName, workloadNames } from './workload.ts'

export function tablesOf(document: BenchDocument): Table[] {
  const runs = runsOf(document)
  const each = (measured: Measured) => workloadNames.map((workload) => policyTable(runs, measured, workload))
  return [...each('compared'), ...each('rates'), ...each('crowds'), ablationTable(runs)]
}

interface ServerRuns {
  readonly name: ServerName
  readonly runs: readonly FlowRun[]
}

const median = (head: string, figure: FigureName, digits: number): Column<ServerRuns> => [
  head,
  (server) => toDigits(medianOf(server.runs, figure), digits),
]

function policyTable(all: readonly FlowRun[], measured: Measured, workload: WorkloadName): Table {
  const own = select(all, { measured, workload })
  const overFcfs = (head: string, figure: FigureName): Column<ServerRuns> => [
    head,
    ({ name }) => toDigits(name === 'fcfs' ? null : serverRatio(own, figure, [name, 'fcfs']), 2),
  ]
  return tableOf(
    `${workload}: medians over seeds; TTFT, p99, effective and raw on the right are over fcfs`,
    runsBy(own, 'server'),
    [
      ['policy', ({ name }) => name],
      median('TTFT ms', 'ttftMeanMs', 0),
      median('p50', 'ttftP50Ms', 0),
      median('p99', 'ttftP99Ms', 0),
      median('effective tokens/s', 'effectiveTokensPerS', 0),
      median('tokens/s', 'rawTokensPerS', 0),
      median('stalls per answer', 'stalls', 1),
      median('s stalled', 'stalledS', 2),
      median('QoS', 'qos', 0),
      median('s in all', 'totalS', 1),
      overFcfs('TTFT', 'ttftMeanMs'),
      overFcfs('p99', 'ttftP99Ms'),
      overFcfs('effective', 'effectiveTokensPerS'),
      overFcfs('raw', 'rawTokensPerS'),
      [
        'core',
        ({ runs }) =>
          toDigits(
            medianOf(runs, (run) => run.bridgeCore),
            2,
          ),
      ],
      ['n', ({ runs }) => String(sum(runs.map(({ samples }) => samples.length)))],
    ],
  )
}

/** The paper's Table 2: its total times over that of all techniques together. */
const paper: Partial<Record<ServerName, number>> = {
  tokenflow: 1,
  'no offload': 127.28 / 66,
  'no write-through': 82.76 / 66,
  'no overlap': 74.43 / 66,
}

function ablationTable(runs: readonly FlowRun[]): Table {
  const left = select(runs, { measured: 'ablation' })
  const beside = select(runs, { server: 'tokenflow' }).filter(
    (run) => select(left, { workload: run.workload, seed: run.seed }).length > 0,
  )
  const all = [...left, ...beside]
  const servers = (['tokenflow', ...ablated] as const).map((name) => ({ name, runs: select(all, { server: name }) }))
  return tableOf(
    `TokenFlow without one technique of its KV tiers, ${left[0]?.workload ?? ''}`,
    left.length === 0 ? [] : servers,
    [
      ['', ({ name }) => (name === 'tokenflow' ? 'all techniques' : name)],
      median('s in all', 'totalS', 1),
      median('TTFT ms', 'ttftMeanMs', 0),
      median('effective tokens/s', 'effectiveTokensPerS', 1),
      median('s stalled', 'stalledS', 1),
      [
        'time over all techniques',
        ({ name }) => toDigits(name === 'tokenflow' ? 1 : serverRatio(all, 'totalS', [name, 'tokenflow']), 2),
      ],
      ['paper', ({ name }) => toDigits(paper[name], 2)],
    ],
  )
}
