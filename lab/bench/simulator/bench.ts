import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import { maxOf } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { tableOf } from '../../frame/tables.ts'
import type { Simulation } from '../../simulate/kernel/simulation.ts'
import { runScenario, ScenarioRun } from '../../simulate/run/run-scenario.ts'
import { readScenarioData } from '../../simulate/run/scenario-data.ts'
import { bareEvents, mixedEvents } from './mixed-events.ts'
import { scenariosOf, waitingScenario } from './scenarios.ts'

interface Measured {
  readonly events: number
  /** Of the process. */
  readonly cpuS: number
}

type RateRun<Kind> = Measured & { readonly kind: Kind; readonly size: number }

type SimulatorRun =
  /** Events that devices, links and readers cause, of so many devices; or events that do nothing while so many wait. */
  | RateRun<'mixed'>
  | RateRun<'bare'>
  | (Measured & { readonly kind: 'scenario'; readonly mode: string; readonly requests: number; readonly tokens: number })
  | { readonly kind: 'waiting'; readonly mode: string; readonly waiting: number; readonly bytes: number }

type RunOf<Kind> = Extract<SimulatorRun, { readonly kind: Kind }>

const runsOf = <Kind extends SimulatorRun['kind']>(runs: readonly SimulatorRun[], kind: Kind) =>
  runs.filter((run): run is RunOf<Kind> => run.kind === kind)

/** Devices of the mixed events, and bare events that wait. */
const sizes = [100, 1_000, 10_000] as const
const repetitions = 5
/** The size of the figure in the summary. */
const summarySize = 1_000

const rateOf = (kind: 'mixed' | 'bare') => (runs: readonly SimulatorRun[]) => {
  const run = runsOf(runs, kind).find(({ size }) => size === summarySize)
  return run ? run.events / run.cpuS : null
}

const perS = (count: number, { cpuS }: Measured): string => Math.round(count / cpuS).toLocaleString('en')

export const simulatorBench = tabledBench<SimulatorRun>({
  name: 'simulator',
  title: 'The simulator',
  contents: 'events and CPU time of every run',
  figureText: 'Events per second by the number of devices, and tokens per second of whole scenarios by mode',
  quickRepetitions: 2,
  figures: {
    eventsPerS: [rateOf('mixed'), { min: 1e6 }],
    bareEventsPerS: [rateOf('bare')],
    bytesPerWaitingRequest: [(runs) => maxOf(runsOf(runs, 'waiting').map(({ bytes }) => bytes)), { max: 1_024 }],
  },
  measure: (context) => measureSimulator(context.quick ? quick : full, context),
  show(document) {
    const { runs, conditions } = document
    const [mixed, scenarios] = [runsOf(runs, 'mixed'), runsOf(runs, 'scenario')]
    const bareOf = ({ size }: { readonly size: number }) => runsOf(runs, 'bare').find((run) => run.size === size)!
    return {
      figure: {
        title: 'Events of the simulator',
        subtitle: String(conditions.cpu),
        columns: 2,
        panels: [
          barPanel(
            'Devices, links and readers',
            'million events/s',
            mixed.map(({ size, events, cpuS }) => [`${size} devices`, 'mixed', events / cpuS / 1e6]),
          ),
          barPanel(
            'Whole scenarios',
            'thousand tokens/s',
            scenarios.map(({ mode, tokens, cpuS }) => [mode, 'tokens', tokens / cpuS / 1e3]),
          ),
        ],
      },
      tables: [
        tableOf('Events per second of CPU time', mixed, [
          ['devices', ({ size }) => String(size)],
          ['of devices, links and readers', (run) => perS(run.events, run)],
          ['of the clock alone', (run) => perS(bareOf(run).events, bareOf(run))],
        ]),
        tableOf('Whole scenarios, with the policies of the live system, per second of CPU time', scenarios, [
          ['mode', ({ mode }) => mode],
          ['requests', ({ requests }) => String(requests)],
          ['events', (run) => perS(run.events, run)],
          ['tokens', (run) => perS(run.tokens, run)],
          ['requests/s', (run) => perS(run.requests, run)],
        ]),
        tableOf('Memory of requests that wait', runsOf(runs, 'waiting'), [
          ['mode', ({ mode }) => mode],
          ['waiting', ({ waiting }) => String(waiting)],
          ['bytes each', ({ bytes }) => String(bytes)],
        ]),
      ],
      findings:
        '*eventsPerS* is what the simulator itself does: a thousand devices compute prompts, send them, and get answers token by ' +
        'token over links of changing rate, with a timer that every token sets anew. Whole scenarios have fewer events per second: ' +
        'each runs the decisions of the live system, and one step of an engine is one event that makes a token for each of its streams.',
      conditions: `${conditions.cpu}, ${conditions.cores} cores; ${loadText(document)}.

- Rates are by CPU time of the process, garbage collection included; a run uses one core. Of five runs without policies the fastest counts.
- Memory is what the heap grows by until all requests have arrived, within a tenth of a second, after a full collection before and after.`,
    }
  },
})

export const command = benchCommand(simulatorBench)

interface Effort {
  /** Of each size, in all its repetitions. */
  readonly events: number
  /** Of each scenario. */
  readonly requests: number
  readonly waitingRequests: number
}

const full: Effort = { events: 1e7, requests: 3_000, waitingRequests: 100_000 }
const quick: Effort = { ...full, events: 2e6, requests: 500 }

export async function measureSimulator({ events, requests, waitingRequests }: Effort, { progress, io }: BenchContext) {
  const runs: SimulatorRun[] = []
  for (const size of sizes) {
    progress(`${size} devices`)
    runs.push({ kind: 'mixed', size, ...fastest(mixedEvents(size), events) })
    runs.push({ kind: 'bare', size, ...fastest(bareEvents(size), events) })
  }
  for (const scenario of scenariosOf(requests)) {
    progress(`scenario: ${scenario.name}`)
    const cpuS = cpuClock()
    const { events, all } = await runScenario(scenario, { signal: io.signal })
    runs.push({ kind: 'scenario', mode: scenario.name, requests: all.requests, tokens: all.tokens, events, cpuS: cpuS() })
  }
  for (const mode of ['cloud', 'local'] as const) {
    progress(`${waitingRequests} requests wait: ${mode}`)
    runs.push({ kind: 'waiting', mode, ...(await bytesOfWaiting(mode, waitingRequests)) })
  }
  return { conditions: { waitingRequests }, runs }
}

/** CPU time of this process since the call, garbage collection included. */
function cpuClock(): () => number {
  const begun = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(begun)
    return (user + system) / 1e6
  }
}

/** The fastest of several runs: other processes share the machine's caches, and make none faster. */
function fastest(simulation: Simulation, events: number): { readonly events: number; readonly cpuS: number } {
  // The first events compile.
  simulation.advance(events / repetitions)
  const timesS = Array.from({ length: repetitions }, () => {
    const cpuS = cpuClock()
    simulation.advance(events / repetitions)
    return cpuS()
  })
  return { events: events / repetitions, cpuS: Math.min(...timesS) }
}

/** What the heap grows by, from an empty world to one in which all requests have arrived. */
async function bytesOfWaiting(
  mode: 'cloud' | 'local',
  waitingRequests: number,
): Promise<{ readonly waiting: number; readonly bytes: number }> {
  const scenario = waitingScenario(mode, waitingRequests)
  const run = new ScenarioRun(scenario, await readScenarioData(scenario, []))
  const before = heapBytes()
  // They arrive within a tenth of a second: few are answered before all are there.
  while (run.asked < waitingRequests) run.simulation.advance(1)
  const bytes = (heapBytes() - before) / run.open
  return { waiting: run.open, bytes: Math.round(bytes) }
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

function heapBytes(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
