import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'

interface Measured {
  readonly events: number
  /** Of the process. */
  readonly cpuS: number
}

export interface RateRun extends Measured {
  /** Events that devices, links and readers cause; or that do nothing. */
  readonly kind: 'mixed' | 'bare'
  /** Devices; or events that wait. */
  readonly size: number
}

interface ScenarioRun extends Measured {
  readonly kind: 'scenario'
  readonly mode: string
  readonly requests: number
  readonly tokens: number
}

interface WaitingRun {
  readonly kind: 'waiting'
  readonly mode: string
  readonly waiting: number
  readonly bytes: number
}

export type SimulatorRun = RateRun | ScenarioRun | WaitingRun

const runsOf = (document: BenchDocument) => {
  const runs = document.runs as SimulatorRun[]
  const rates = (kind: RateRun['kind']) => runs.filter((run): run is RateRun => run.kind === kind)
  return {
    mixed: rates('mixed'),
    bare: rates('bare'),
    scenario: runs.filter((run): run is ScenarioRun => run.kind === 'scenario'),
    waiting: runs.filter((run): run is WaitingRun => run.kind === 'waiting'),
  }
}

const perS = (count: number, { cpuS }: Measured): string => Math.round(count / cpuS).toLocaleString('en')

function tablesOf(document: BenchDocument): readonly Table[] {
  const { mixed, bare, scenario, waiting } = runsOf(document)
  return [
    {
      title: 'Events per second of CPU time',
      head: ['devices', 'of devices, links and readers', 'of the clock alone'],
      rows: mixed.map((run, i) => [String(run.size), perS(run.events, run), perS(bare[i]!.events, bare[i]!)]),
    },
    {
      title: 'Whole scenarios, with the policies of the live system, per second of CPU time',
      head: ['mode', 'requests', 'events', 'tokens', 'requests/s'],
      rows: scenario.map((run) => [
        run.mode,
        String(run.requests),
        perS(run.events, run),
        perS(run.tokens, run),
        perS(run.requests, run),
      ]),
    },
    {
      title: 'Memory of requests that wait',
      head: ['mode', 'waiting', 'bytes each'],
      rows: waiting.map((run) => [run.mode, String(run.waiting), String(run.bytes)]),
    },
  ]
}

export const simulatorReport: BenchReport = {
  title: 'The simulator',
  contents: 'events and CPU time of every run',
  figure: (document) => ({
    title: 'Events of the simulator',
    subtitle: String(document.conditions.cpu),
    columns: 2,
    panels: [
      {
        kind: 'bars' as const,
        title: 'Devices, links and readers',
        yLabel: 'million events/s',
        groups: runsOf(document).mixed.map((run) => ({
          label: `${run.size} devices`,
          bars: [{ name: 'mixed', value: run.events / run.cpuS / 1e6 }],
        })),
      },
      {
        kind: 'bars' as const,
        title: 'Whole scenarios',
        yLabel: 'thousand tokens/s',
        groups: runsOf(document).scenario.map((run) => ({
          label: run.mode,
          bars: [{ name: 'tokens', value: run.tokens / run.cpuS / 1e3 }],
        })),
      },
    ],
  }),
  figureText: 'Events per second by the number of devices, and tokens per second of whole scenarios by mode',
  tables: tablesOf,
  findings: () =>
    '*eventsPerS* is what the simulator itself does: a thousand devices compute prompts, send them, and get answers token by ' +
    'token over links of changing rate, with a timer that every token sets anew. Whole scenarios have fewer events per second: ' +
    'each runs the decisions of the live system, and one step of an engine is one event that makes a token for each of its streams.',
  conditions(document) {
    const { cpu, cores } = document.conditions
    return `${cpu}, ${cores} cores; ${loadText(document)}.

- Rates are by CPU time of the process, garbage collection included; a run uses one core. Of five runs without policies the fastest counts.
- Memory is what the heap grows by until all requests have arrived, within a tenth of a second, after a full collection before and after.`
  },
}
