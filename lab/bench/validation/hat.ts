import { seededRandom } from '../../../core/kit/base/random.ts'
import { createPolicy } from '../../../core/policy/tokenflow/named-policies.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { fromColumns } from '../../frame/columns.ts'
import { over, sum } from '../../frame/statistics.ts'
import { layersOf, wholeModel } from '../../simulate/hardware/model-shape.ts'
import { modelNamed } from '../../simulate/hardware/presets/presets.ts'
import type { Hardware } from '../../simulate/hardware/roofline.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import { splitMode } from '../../simulate/modes/hat/modes.ts'
import type { HatSettings } from '../../simulate/scenario/hat-settings.ts'
import { Scenario } from '../../simulate/scenario/scenario.ts'
import { stepCost } from '../../simulate/serving/step-cost.ts'
import type { Mode } from '../../simulate/world/mode.ts'
import type { World } from '../../simulate/world/world.ts'
import { linkShape } from '../hat/links.ts'
import type { KeptHatRun, KeptHatSample } from '../hat/runs.ts'
import type { StrategyName } from '../hat/strategies.ts'
import type { WorkloadName } from '../hat/workload.ts'
import { type AnswerTimes, cellsOf, type ValidationCell } from './cells.ts'
import { answerAll, bridge, bridgeEngine, bridgeKv, liveDevice, recordTimes } from './live-world.ts'

/** Layers that devices compute: the demonstration model's split. */
const inputLayers = 1
/** Of a round trip, beside the link's: sockets and processes at both ends, and the relay's timers of 1 ms. */
const handlingMs = 2

interface Conditions {
  readonly stateBytes: number
  readonly rttMs: number
  readonly jitterMs: number
  /** Options by name. */
  readonly strategies?: Readonly<Record<string, unknown>>
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

const strategies: Readonly<Partial<Record<StrategyName, SimulatedStrategy>>> = {
  hat: { mode: 'hat', hat: {}, rows: byDefault },
  'hat-fp16': { mode: 'hat', hat: {}, rows: byDefault },
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
  const loaded = (runs as readonly KeptHatRun[]).filter(
    ({ strategy, perS, isVoid }) => perS !== null && !isVoid && strategy in strategies,
  )
  return loaded.flatMap((run) => {
    const { measured, strategy, workload, perS } = run
    const samples = fromColumns(run.samples)
    const name = `${measured}, ${workload}, ${strategy}, ${perS!.toFixed(1)}/s, seed ${run.seed}`
    return cellsOf('hat', name, samples, simulate(run, samples, conditions as unknown as Conditions, hardware))
  })
}

/** Agents code states by default since there is a strategy that does not. */
const codingOf = (strategy: StrategyName, { strategies = {} }: Conditions): Partial<HatSettings> =>
  strategy === 'hat' && 'hat-fp16' in strategies ? { wire: 'fp16c' } : {}

function simulate(run: KeptHatRun, samples: readonly KeptHatSample[], conditions: Conditions, hardware: Hardware): AnswerTimes[] {
  const { strategy, workload, seed } = run
  const { mode, hat, rows } = strategies[strategy]!
  const [stepRows, promptRows] = rows(workload)
  const simulation = new Simulation(seed)
  const world = worldOf(simulation, run, conditions, hardware, { stepRows, promptRows })
  const modeOf = modesOf(world, samples, mode, { ...hat, ...codingOf(strategy, conditions) })
  const requests = samples.map((sample, id) => {
    const { atMs, device, promptTokens, tokens: outputTokens } = sample
    return { id, atMs, device, promptTokens, outputTokens, mode: modeOf(sample) }
  })
  const recordOf = answerAll(simulation, requests)
  return samples.map(({ atMs, tokens }, id) => {
    const times = recordTimes(atMs, recordOf(id))
    return times.tookMs === null ? times : { ...times, tokens }
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
  const length = over(sum(drafted.map(({ tokens }) => tokens - 1)), sum(drafted.map(({ rounds }) => rounds)))
  return Math.max(1.01, length ?? 0)
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
  const devices = Array.from({ length: count }, (_, index) => {
    const { up, down } = linkShape(index, { ...conditions, rttMs }, links)
    return liveDevice(simulation, hardware, { index, link: { up: up.rates, down: down.rates, rttMs: rttMs + handlingMs } })
  })
  const engine = bridgeEngine(simulation, {
    policy: createPolicy('decode-first', { ...bridge, promptRows }),
    stepS: stepCost(hardware, shape, { inputLayers }),
    answerKv: bridgeKv(wholeModel(shape).kvBytesPerPosition),
    deviceKv: bridgeKv(layersOf(shape, inputLayers, shape.layers).kvBytesPerPosition),
    firstPositions: 128,
    step: { rows: stepRows, streams: bridge.streams },
  })
  return { simulation, scenario: scenarioOf(stepRows), devices, model: shape, engines: [engine], server: undefined }
}

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
