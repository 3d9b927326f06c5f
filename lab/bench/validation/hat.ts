import { seededRandom } from '../../../core/kit/base/random.ts'
import { doublingKv } from '../../../core/policy/admission/kv.ts'
import { createPolicy } from '../../../core/policy/tokenflow/named-policies.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { fromColumns } from '../../frame/columns.ts'
import type { Board } from '../../simulate/hardware/board.ts'
import { layersOf, type ModelShape, wholeModel } from '../../simulate/hardware/model-shape.ts'
import { modelNamed } from '../../simulate/hardware/presets/models.ts'
import type { Hardware } from '../../simulate/hardware/roofline.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import { splitMode } from '../../simulate/modes/hat/modes.ts'
import type { HatSettings } from '../../simulate/scenario/hat-settings.ts'
import { Scenario } from '../../simulate/scenario/scenario.ts'
import { createEngine } from '../../simulate/serving/simulated-engine.ts'
import { stepCost } from '../../simulate/serving/step-cost.ts'
import { Answer } from '../../simulate/world/answer.ts'
import type { AnswerRecord } from '../../simulate/world/answer-record.ts'
import { EnergyMeter } from '../../simulate/world/energy-meter.ts'
import type { Mode } from '../../simulate/world/mode.ts'
import { Processor } from '../../simulate/world/processor.ts'
import { SimulatedLink } from '../../simulate/world/simulated-link.ts'
import type { World } from '../../simulate/world/world.ts'
import { linkShape } from '../hat/links.ts'
import type { KeptHatRun, KeptHatSample } from '../hat/runs.ts'
import type { StrategyName } from '../hat/strategies.ts'
import type { WorkloadName } from '../hat/workload.ts'
import { bridge } from './bridge.ts'
import { type AnswerTimes, cellsOf, type ValidationCell } from './cells.ts'

/** Layers that devices compute: the demonstration model's split. */
const inputLayers = 1
/** Of a round trip, beside the link's: sockets and processes at both ends, and the relay's timers of 1 ms. */
const handlingMs = 2

interface Conditions {
  readonly stateBytes: number
  readonly rttMs: number
  readonly jitterMs: number
}

/** What a strategy is in the simulator: the options of agents and bridge in lab/bench/hat/strategies.ts. */
interface SimulatedStrategy {
  readonly mode: Parameters<typeof splitMode>[1]
  readonly hat: Partial<HatSettings>
  /** Rows of a step, and of prompts in it. */
  readonly rows: (workload: WorkloadName) => readonly [number, number]
}

const byDefault = () => [bridge.tokenBudget, bridge.promptRows] as const
const whole = () => [2_048, 2_048] as const
const sarathiChunk = { short: 128, long: 256 } as const

const strategies: Readonly<Record<StrategyName, SimulatedStrategy>> = {
  hat: { mode: 'hat', hat: {}, rows: byDefault },
  'hat-int8': { mode: 'hat', hat: { wire: 'int8' }, rows: byDefault },
  'u-shape': { mode: 'u-shape', hat: {}, rows: whole },
  'u-shape-lean': { mode: 'u-shape-lean', hat: {}, rows: whole },
  'u-sarathi': { mode: 'u-sarathi', hat: {}, rows: (workload) => [sarathiChunk[workload], sarathiChunk[workload]] },
  'u-medusa': { mode: 'u-medusa', hat: {}, rows: whole },
  PC: { mode: 'hat', hat: { drafts: false }, rows: byDefault },
  SD: { mode: 'hat', hat: { chunks: false, draftAhead: false }, rows: whole },
  'SD+PD': { mode: 'hat', hat: { chunks: false }, rows: whole },
  'SD+PC': { mode: 'hat', hat: { draftAhead: false }, rows: byDefault },
}

/** The runs under load again, with their own requests and links, and the acceptance of their drafts. */
export function validateHat({ conditions, runs }: BenchDocument, hardware: Hardware): ValidationCell[] {
  const loaded = (runs as readonly KeptHatRun[]).filter(({ perS, isVoid }) => perS !== null && !isVoid)
  return loaded.flatMap((run) => {
    const { measured, strategy, workload, perS } = run
    const samples = fromColumns(run.samples)
    const name = `${measured}, ${workload}, ${strategy}, ${perS!.toFixed(1)}/s, seed ${run.seed}`
    return cellsOf('hat', name, samples, simulate(run, samples, conditions as unknown as Conditions, hardware))
  })
}

function simulate(run: KeptHatRun, samples: readonly KeptHatSample[], conditions: Conditions, hardware: Hardware): AnswerTimes[] {
  const { strategy, workload, seed } = run
  const { mode, hat, rows } = strategies[strategy]
  const [stepRows, promptRows] = rows(workload)
  const simulation = new Simulation(seed)
  const world = worldOf(simulation, run, conditions, hardware, { stepRows, promptRows })
  const modes = modesOf(world, samples, mode, hat)
  const ended = new Map<number, AnswerRecord>()
  const collector = { first() {}, gap() {}, ended: (record: AnswerRecord) => ended.set(record.id, record) }
  for (const [id, sample] of samples.entries()) {
    const { atMs, device, promptTokens, tokens } = sample
    const request = { id, atMs, mode, part: mode, device, promptTokens, outputTokens: tokens, sharedTokens: 0, tokensPerS: 1e6 }
    simulation.at(atMs, () => modes(sample).begin(new Answer(request, simulation, collector)))
  }
  while (simulation.advance(100_000));
  return samples.map(({ atMs, tokens }, id) => {
    const record = ended.get(id)
    if (!record) return { atMs, ttftMs: null, tbtMs: null, tookMs: null, tokens: 0 }
    const { ttftMs, tbtMs, endedMs } = record
    return { atMs, ttftMs, tbtMs: Number.isNaN(tbtMs) ? null : tbtMs, tookMs: endedMs - atMs, tokens }
  })
}

/** Answers that repeat themselves are drafted far better than others: each kind has the accept length of its own samples. */
function modesOf(
  world: World,
  samples: readonly KeptHatSample[],
  name: SimulatedStrategy['mode'],
  hat: Partial<HatSettings>,
): (sample: KeptHatSample) => Mode {
  const of = (own: readonly KeptHatSample[]) => {
    const acceptLength = acceptLengthOf(own)
    const settings = { ...world.scenario.policies.hat, ...hat, acceptLength, medusaAcceptLength: acceptLength }
    return splitMode({ ...world, scenario: { ...world.scenario, policies: { ...world.scenario.policies, hat: settings } } }, name)
  }
  const looping = of(samples.filter((sample) => sample.looping))
  const others = of(samples.filter((sample) => !sample.looping))
  return (sample) => (sample.looping ? looping : others)
}

/** Tokens after the first over the verifications that gave them. */
function acceptLengthOf(samples: readonly KeptHatSample[]): number {
  const drafted = samples.filter(({ rounds }) => rounds > 0)
  const rounds = drafted.reduce((sum, sample) => sum + sample.rounds, 0)
  const tokens = drafted.reduce((sum, sample) => sum + sample.tokens - 1, 0)
  return rounds === 0 ? 1.01 : Math.max(1.01, tokens / rounds)
}

function worldOf(
  simulation: Simulation,
  { devices: count, seed, rttMs }: KeptHatRun,
  conditions: Conditions,
  hardware: Hardware,
  { stepRows, promptRows }: { readonly stepRows: number; readonly promptRows: number },
): World {
  const shape = modelNamed('brim-demo')
  const links = seededRandom(seed)
  const board = boardOf(hardware)
  const devices = Array.from({ length: count }, (_, index) => {
    const { up, down } = linkShape(index, { ...conditions, rttMs }, links)
    const model = { up: up.rates, down: down.rates, rttMs: rttMs + handlingMs }
    return {
      index,
      group: 'devices',
      board,
      hardware,
      smallModels: [],
      processor: new Processor(simulation),
      link: new SimulatedLink(simulation, model, simulation.random('loss')),
      energy: new EnergyMeter(board.power),
    }
  })
  return {
    simulation,
    scenario: scenarioOf(stepRows),
    devices,
    model: shape,
    engines: [
      createEngine(simulation, {
        policy: createPolicy('decode-first', { ...bridge, promptRows }),
        stepS: stepCost(hardware, shape, { inputLayers }),
        stepJitter: 0,
        answerKv: kvOf(shape, 0),
        deviceKv: kvOf(shape, inputLayers),
        firstPositions: 128,
        memoryBytes: 2 * 2 ** 30,
        slowBytes: 0,
        transferBytesPerS: 1e9,
        writeThrough: false,
        overlap: false,
        step: { rows: stepRows, streams: bridge.streams },
        pipeline: 1,
        maxDecodeRows: bridge.minPromptRows,
        maxWaiting: 10_000,
        pipelinedPrompts: false,
        waitsForTransfers: false,
      }),
    ],
    server: undefined,
  }
}

const kvOf = (shape: ModelShape, from: number) => {
  const part = from === 0 ? wholeModel(shape) : layersOf(shape, from, shape.layers)
  return doublingKv({ ...bridge, firstPositions: 0, bytesPerPosition: part.kvBytesPerPosition })
}

const boardOf = (hardware: Hardware): Board => ({
  name: hardware.name,
  hardware,
  power: { idleW: 0, computeW: 0, radioW: 0 },
  powerModes: [],
  throttling: { sustained: 1, timeConstantS: 1 },
  measured: {},
  source: hardware.source,
})

/** What modes read of it; requests come from the document. */
const scenarioOf = (stepRows: number): Scenario =>
  Scenario.parse({
    name: 'hat',
    cloud: { model: 'brim-demo', gpu: 'a40', inputLayers, stepRows },
    workload: {
      requests: 1,
      arrivals: { kind: 'burst' },
      promptTokens: 1,
      outputTokens: 1,
      modes: [{ mode: 'cloud', share: 1 }],
    },
  })
