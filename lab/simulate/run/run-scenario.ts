import { Simulation } from '../kernel/simulation.ts'
import { modes } from '../modes/modes.ts'
import { RecordFile, type RecordTarget } from '../results/record-file.ts'
import { ResultCollector } from '../results/result-collector.ts'
import type { Scenario } from '../scenario/scenario.ts'
import { Answer } from '../world/answer.ts'
import type { AnswerRecord, RequestedAnswer } from '../world/answer-record.ts'
import type { Mode } from '../world/mode.ts'
import type { World } from '../world/world.ts'
import { Askers } from './askers.ts'
import { buildWorld } from './build-world.ts'
import { PowerModes } from './power-modes.ts'
import { requestsOf } from './requests.ts'
import type { DeviceResult, ScenarioResult } from './result.ts'
import { readScenarioData, type ScenarioData } from './scenario-data.ts'

export interface RunScenarioOptions {
  /** In which the files that the scenario names are looked for; needed where it names some. */
  readonly folders?: readonly string[]
  /** Aborted: the run ends early, with the results so far. */
  readonly signal?: AbortSignal
  /** @param share of the requests that are over */
  onProgress?(share: number): void
  /** Called with each answer as it ends. */
  onRecord?(record: AnswerRecord): void
  /** File that gets a line for each answer. */
  readonly records?: RecordTarget | undefined
}

/** Runs a scenario from its first request to its last answer. @throws BrimError USAGE, REQUEST_INVALID, TARGET_UNWRITABLE */
export async function runScenario(scenario: Scenario, options: RunScenarioOptions = {}): Promise<ScenarioResult> {
  const { folders = [], records, onRecord, ...watching } = options
  const data = await readScenarioData(scenario, folders)
  const file = records && new RecordFile(records)
  try {
    return await new ScenarioRun(scenario, data, file ? (record) => file.write(record) : onRecord).run(watching)
  } finally {
    file?.close()
  }
}

/** A scenario on its clock. Run once. */
export class ScenarioRun {
  readonly simulation: Simulation
  readonly #scenario: Scenario
  readonly #world: World
  readonly #modes: ReadonlyMap<string, Mode>
  readonly #powerModes: PowerModes
  readonly #collector: ResultCollector
  readonly #requests: Iterator<RequestedAnswer, void>
  #next: IteratorResult<RequestedAnswer, void>
  readonly #firstMs: number

  /** @param onRecord called with each answer as it ends @throws BrimError USAGE, REQUEST_INVALID */
  constructor(scenario: Scenario, data: ScenarioData, onRecord?: (record: AnswerRecord) => void) {
    const simulation = new Simulation(scenario.seed)
    const world = buildWorld(scenario, simulation, data)
    const { devices } = world
    this.simulation = simulation
    this.#scenario = scenario
    this.#world = world
    this.#modes = new Map(scenario.workload.modes.map(({ mode }) => [mode, modes[mode](world)]))
    this.#powerModes = new PowerModes(scenario.devices, devices.length, simulation.random('power modes'))
    const asking = new Askers(simulation.random('devices'), scenario.workload.askers === 'idle')
    const { fromS, untilS } = scenario.workload.counted
    const counted = { fromMs: 1_000 * fromS, untilMs: untilS === undefined ? Number.POSITIVE_INFINITY : 1_000 * untilS }
    const ended = (record: AnswerRecord) => {
      onRecord?.(record)
      if (record.device !== undefined) asking.ended(record.device)
      if (this.#next.done && this.#collector.open === 0) simulation.stop()
    }
    this.#collector = new ResultCollector(ended, counted)
    this.#requests = requestsOf(scenario.workload, {
      trace: data.requests,
      devicesOf: (name) => devices.flatMap(({ index, group }) => (name === undefined || group === name ? [index] : [])),
      random: (purpose) => simulation.random(purpose),
      asking,
    })
    this.#next = this.#requests.next()
    this.#firstMs = this.#next.value?.atMs ?? 0
    this.#awaitNext()
  }

  get asked(): number {
    return this.#collector.asked
  }

  /** Requests that are neither answered nor refused. */
  get open(): number {
    return this.#collector.open
  }

  async run({ signal, onProgress }: Pick<RunScenarioOptions, 'signal' | 'onProgress'> = {}): Promise<ScenarioResult> {
    const { simulation } = this
    const { name, seed, untilS, workload } = this.#scenario
    const isComplete = await simulation.run({
      ...(untilS === undefined ? {} : { untilMs: 1_000 * untilS }),
      ...(signal && { signal }),
      onProgress: () => onProgress?.(this.#collector.over / workload.requests),
    })
    if (isComplete && untilS === undefined && this.open > 0)
      throw new Error(`scenario "${name}": nothing happens any more, and ${this.open} requests have no answer`)
    const durationS = (simulation.nowMs - this.#firstMs) / 1_000
    return {
      scenario: name,
      seed,
      isComplete,
      durationS,
      events: simulation.events,
      ...this.#collector.results(durationS),
      engines: this.#world.engines.map(({ figures, memory }) => ({
        ...figures,
        kvBytes: memory.budgetBytes,
        busyShare: figures.busyS / durationS,
      })),
      devices: deviceResults(this.#world, durationS),
    }
  }

  #awaitNext(): void {
    if (!this.#next.done) this.simulation.at(this.#next.value.atMs, this.#arrive)
  }

  readonly #arrive = (): void => {
    const request = this.#next.value!
    this.#next = this.#requests.next()
    this.#awaitNext()
    if (request.device !== undefined) this.#powerModes.asked(this.#world.devices[request.device]!)
    this.#collector.ask(request)
    this.#modes.get(request.mode)!.begin(new Answer(request, this.simulation, this.#collector))
  }
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
