import { BrimError } from '../../../core/base/errors.ts'
import { Simulation } from '../kernel/simulation.ts'
import { modes } from '../modes/modes.ts'
import { ResultCollector } from '../results/result-collector.ts'
import type { Scenario } from '../scenario/scenario.ts'
import { Answer } from '../world/answer.ts'
import type { AnswerRecord } from '../world/answer-record.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { Askers } from './askers.ts'
import { buildWorld } from './build-world.ts'
import { PowerModes } from './power-modes.ts'
import { requestsOf } from './requests.ts'
import type { DeviceResult, ScenarioResult } from './result.ts'
import { readScenarioData } from './scenario-data.ts'

export interface RunScenarioOptions {
  /** In which the files that the scenario names are looked for; needed where it names some. */
  readonly folders?: readonly string[]
  /** Aborted: the run ends early, with the results so far. */
  readonly signal?: AbortSignal
  /** @param share of the requests that are over */
  onProgress?(share: number): void
  /** Called with each answer as it ends. */
  onRecord?(record: AnswerRecord): void
}

/** Runs a scenario from its first request to its last answer. @throws BrimError USAGE, REQUEST_INVALID */
export async function runScenario(scenario: Scenario, options: RunScenarioOptions = {}): Promise<ScenarioResult> {
  const { folders = [], signal, onProgress, onRecord } = options
  const data = await readScenarioData(scenario, folders)
  const simulation = new Simulation(scenario.seed)
  const world = buildWorld(scenario, simulation, data)
  const answering = modesOf(world)
  const powerModes = new PowerModes(scenario.devices, world.devices.length, simulation.random('power modes'))
  const asking = new Askers(simulation.random('devices'), scenario.workload.askers === 'idle')
  const requests = requestsOf(scenario.workload, {
    trace: data.requests,
    devicesOf: (name) => world.devices.flatMap(({ index, group }) => (name === undefined || group === name ? [index] : [])),
    random: (purpose) => simulation.random(purpose),
    asking,
  })
  let next = requests.next()
  const collector = new ResultCollector((record) => {
    onRecord?.(record)
    if (record.device !== undefined) asking.ended(record.device)
    if (next.done && collector.over === collector.asked) simulation.stop()
  })
  const firstMs = next.done ? 0 : next.value.atMs
  const arrive = (): void => {
    const request = next.value!
    next = requests.next()
    if (!next.done) simulation.at(next.value.atMs, arrive)
    if (request.device !== undefined) powerModes.asked(world.devices[request.device]!)
    collector.ask(request)
    answering.get(request.mode)!.begin(new Answer(request, simulation, collector))
  }
  if (!next.done) simulation.at(firstMs, arrive)

  const { untilS } = scenario
  const isComplete = await simulation.run({
    ...(untilS === undefined ? {} : { untilMs: 1_000 * untilS }),
    ...(signal && { signal }),
    onProgress: () => onProgress?.(collector.over / scenario.workload.requests),
  })
  const durationS = (simulation.nowMs - firstMs) / 1_000
  return {
    scenario: scenario.name,
    seed: scenario.seed,
    isComplete,
    durationS,
    events: simulation.events,
    ...collector.results(durationS),
    engines: world.engines.map(({ figures }) => ({ ...figures, busyShare: figures.busyS / durationS })),
    devices: deviceResults(world, durationS),
  }
}

/** Each way of answering that the workload names. */
function modesOf(world: World): ReadonlyMap<string, Mode> {
  return new Map(
    world.scenario.workload.modes.map(({ mode }) => {
      const make = modes[mode]
      if (make) return [mode, make(world)]
      throw new BrimError('REQUEST_INVALID', `the simulator has no mode "${mode}"`, { hint: Object.keys(modes).join(', ') })
    }),
  )
}

function deviceResults({ devices, scenario }: World, durationS: number): Record<string, DeviceResult> {
  const groups = scenario.devices.map(({ name, count }): [string, DeviceResult] => {
    const own = devices.filter(({ group }) => group === name)
    const meanOf = (value: (device: World['devices'][number]) => number) =>
      own.reduce((sum, device) => sum + value(device), 0) / own.length
    return [
      name,
      {
        count,
        busyShare: meanOf(({ processor }) => processor.busyS) / durationS,
        joules: meanOf(({ energy }) => energy.joules),
        upBytes: meanOf(({ link }) => link.bytes.up),
        downBytes: meanOf(({ link }) => link.bytes.down),
      },
    ]
  })
  return Object.fromEntries(groups)
}
