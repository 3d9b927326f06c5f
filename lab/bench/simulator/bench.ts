import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import type { Simulation } from '../../simulate/kernel/simulation.ts'
import { runScenario, ScenarioRun } from '../../simulate/run/run-scenario.ts'
import { readScenarioData } from '../../simulate/run/scenario-data.ts'
import { bareEvents, mixedEvents } from './mixed-events.ts'
import { type SimulatorRun, simulatorReport } from './report.ts'
import { scenariosOf, waitingScenario } from './scenarios.ts'

/** Devices of the mixed events, and bare events that wait. */
const sizes = [100, 1_000, 10_000] as const
const repetitions = 5
/** The size of the figure in the summary. */
const summarySize = 1_000

export const simulatorBench: Bench = {
  name: 'simulator',
  quickRepetitions: 2,
  options: {},
  examples: [],
  goals: { eventsPerS: { min: 1e6 }, bytesPerWaitingRequest: { max: 1_024 } },
  run: (context) => benchSimulator(context.quick ? quick : full, context),
  report: simulatorReport,
}

/** `brim bench simulator` */
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

export async function benchSimulator(
  { events, requests, waitingRequests }: Effort,
  { progress, io }: BenchContext,
): Promise<BenchResult> {
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
  return { conditions: { waitingRequests }, summary: summarise(runs), runs }
}

function summarise(runs: readonly SimulatorRun[]) {
  const rateOf = (kind: 'mixed' | 'bare') => {
    const run = runs.find((each) => each.kind === kind && each.size === summarySize)
    return run && 'cpuS' in run ? run.events / run.cpuS : null
  }
  const waiting = runs.flatMap((run) => (run.kind === 'waiting' ? [run.bytes] : []))
  return { eventsPerS: rateOf('mixed'), bareEventsPerS: rateOf('bare'), bytesPerWaitingRequest: Math.max(...waiting) }
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
