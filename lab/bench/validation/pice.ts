import { doublingKv } from '../../../core/policy/admission/kv.ts'
import { createPolicy } from '../../../core/policy/tokenflow/named-policies.ts'
import type { StepPace } from '../../cluster/cluster.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { fromColumns } from '../../frame/columns.ts'
import { type ModelShape, wholeModel } from '../../simulate/hardware/model-shape.ts'
import { gpuNamed } from '../../simulate/hardware/presets/gpus.ts'
import { modelNamed } from '../../simulate/hardware/presets/models.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import { cloudMode } from '../../simulate/modes/cloud.ts'
import { localMode } from '../../simulate/modes/local.ts'
import { sketchMode } from '../../simulate/modes/pice/sketch-mode.ts'
import { Scenario } from '../../simulate/scenario/scenario.ts'
import { createEngine } from '../../simulate/serving/simulated-engine.ts'
import { Answer } from '../../simulate/world/answer.ts'
import type { AnswerRecord } from '../../simulate/world/answer-record.ts'
import { EnergyMeter } from '../../simulate/world/energy-meter.ts'
import type { Mode } from '../../simulate/world/mode.ts'
import { Processor } from '../../simulate/world/processor.ts'
import { SimulatedLink } from '../../simulate/world/simulated-link.ts'
import type { World } from '../../simulate/world/world.ts'
import type { Capacity, KeptPiceRun, KeptPiceSample } from '../pice/runs.ts'
import { bridge } from './bridge.ts'
import { type AnswerTimes, cellsOf, type ValidationCell } from './cells.ts'

/** Of the benchmark's questions, which the document does not say. */
const promptTokens = 60
/** Loopback: of a message and its answer. */
const loopbackRttMs = 2
/** Before the requests, as the benchmark warms its bridges. */
const warmUp = { answers: 16, ms: 60_000 }

interface Conditions {
  readonly plan: { readonly devices: number; readonly paces: { readonly cloud: StepPace; readonly device: StepPace } }
  readonly capacity: Capacity
}

/** The compared methods again, with their own requests. */
export function validatePice({ conditions, runs }: BenchDocument): ValidationCell[] {
  return (runs as readonly KeptPiceRun[]).flatMap((run) => {
    const samples = fromColumns(run.samples)
    const name = `${run.method}, load ${run.load.toFixed(2)}, seed ${run.seed}`
    return cellsOf('pice', name, samples.map(liveTimes), simulate(run, samples, conditions as unknown as Conditions))
  })
}

/** Sentences of a sketch come at once, so that such an answer has no time between tokens. */
function liveTimes({ atMs, ttftMs, tookMs, tokens, by }: KeptPiceSample): AnswerTimes {
  const count = tokens ?? 0
  const tbtMs = by !== 'sketch' && ttftMs !== null && tookMs !== null && count > 1 ? (tookMs - ttftMs) / (count - 1) : null
  return { atMs, ttftMs, tbtMs, tookMs, tokens: count }
}

function simulate(run: KeptPiceRun, samples: readonly KeptPiceSample[], conditions: Conditions): AnswerTimes[] {
  const simulation = new Simulation(run.seed)
  const world = worldOf(simulation, conditions)
  const modes = { cloud: cloudMode(world), device: localMode(world), sketch: modeOf(run, world) }
  const ended = new Map<number, AnswerRecord>()
  const collector = { first() {}, gap() {}, ended: (record: AnswerRecord) => ended.set(record.id, record) }
  const ask = (id: number, atMs: number, mode: Mode, outputTokens: number) => {
    const request = {
      id,
      atMs,
      mode: '',
      part: '',
      device: undefined,
      promptTokens,
      outputTokens,
      sharedTokens: 0,
      tokensPerS: 1e6,
    }
    simulation.at(atMs, () => mode.begin(new Answer(request, simulation, collector)))
  }
  const { cloudTokens } = conditions.capacity
  for (let i = 0; i < warmUp.answers; i += 1) ask(-1 - i, 0, modes.cloud, Math.round(cloudTokens))
  for (const [id, sample] of samples.entries())
    ask(id, warmUp.ms + sample.atMs, methodOf(run, sample, modes), Math.max(1, sample.tokens ?? 1))
  while (simulation.advance(100_000));
  return samples.map(({ atMs }, id) => {
    const record = ended.get(id)
    if (!record) return { atMs, ttftMs: null, tbtMs: null, tookMs: null, tokens: 0 }
    const { ttftMs, endedMs, tokens, sketchTokens } = record
    const tbtMs = sketchTokens > 0 || Number.isNaN(record.tbtMs) ? null : record.tbtMs
    return { atMs, ttftMs, tbtMs, tookMs: endedMs - record.atMs, tokens }
  })
}

/** Which answers are routed to devices is the router's choice, which texts decide: it is taken over. */
const methodOf = ({ method }: KeptPiceRun, { by }: KeptPiceSample, modes: Readonly<Record<KeptPiceSample['by'], Mode>>): Mode =>
  method === 'PICE' || method === 'PICE static' ? modes.sketch : by === 'device' ? modes.device : modes.cloud

const modeOf = ({ method }: KeptPiceRun, world: World): Mode => sketchMode(world, method === 'PICE static' ? 'static' : 'dynamic')

function worldOf(simulation: Simulation, { plan, capacity }: Conditions): World {
  const { device: pace } = plan.paces
  const llm = modelNamed('brim-demo')
  const kv = doublingKv({ ...bridge, firstPositions: 0, bytesPerPosition: wholeModel(llm).kvBytesPerPosition })
  const small = pacedShape(modelNamed('brim-demo-slm-deep'))
  const machine = gpuNamed('a40')
  const hardware = {
    ...machine,
    bytesPerS: Number.POSITIVE_INFINITY,
    flopPerS: (1_000 * wholeModel(small).flopPerRow) / pace.rowMs,
    layerS: pace.stepMs / 1_000 / small.layers,
    streamS: 0,
  }
  const power = { idleW: 0, computeW: 0, radioW: 0 }
  const throttling = { sustained: 1, timeConstantS: 1 }
  const board = {
    name: 'paced',
    hardware,
    power,
    powerModes: [],
    throttling,
    measured: {},
    source: 'lab/baselines/paced-model.ts',
  }
  const rate = { intervalMs: Number.POSITIVE_INFINITY, bytesPerS: [1e9] }
  const devices = Array.from({ length: plan.devices }, (_, index) => ({
    index,
    group: 'devices',
    board,
    hardware,
    smallModels: [small],
    processor: new Processor(simulation),
    link: new SimulatedLink(simulation, { up: rate, down: rate, rttMs: loopbackRttMs }, simulation.random('loss')),
    energy: new EnergyMeter(power),
  }))
  return {
    simulation,
    scenario,
    devices,
    model: llm,
    engines: [
      createEngine(simulation, {
        policy: createPolicy('decode-first', bridge),
        stepS: pacedStepS(plan.paces.cloud, capacity),
        stepJitter: 0,
        answerKv: kv,
        deviceKv: kv,
        firstPositions: 0,
        memoryBytes: 2 * 2 ** 30,
        slowBytes: 0,
        transferBytesPerS: 1e9,
        waitsForTransfers: false,
        writeThrough: false,
        overlap: false,
        step: { rows: bridge.tokenBudget, streams: bridge.streams },
        pipeline: 1,
        pipelinedPrompts: false,
        maxDecodeRows: bridge.minPromptRows,
        maxWaiting: 10_000,
      }),
    ],
    server: undefined,
  }
}

/** The pace, and what the bridge needs beside it: from one answer alone, and from full steps. */
function pacedStepS(
  { stepMs, rowMs }: StepPace,
  capacity: Capacity,
): (step: { readonly rows: number; readonly chosen: number }) => number {
  const { streams } = bridge
  const alone = capacity.cloudTokenS - (stepMs + rowMs) / 1_000
  const full = streams / (capacity.cloudPerS * capacity.cloudTokens) - (stepMs + streams * rowMs) / 1_000
  const perStream = Math.max(0, (full - alone) / (streams - 1))
  return ({ rows, chosen }) => (stepMs + rowMs * rows) / 1_000 + Math.max(0, alone) + perStream * Math.max(0, chosen - 1)
}

/** The same numbers of layers and weights without attention: the pace of an emulated device does not depend on the context. */
const pacedShape = (shape: ModelShape): ModelShape => ({ ...shape, heads: 0, kvHeads: 0, vocabulary: 0 })

/** What modes read of it; requests come from the document. */
const scenario = Scenario.parse({
  name: 'pice',
  cloud: { model: 'brim-demo', gpu: 'a40' },
  devices: [{ name: 'devices', count: 1, board: 'orin-nano', link: { up: 1e9, down: 1e9 }, smallModels: ['brim-demo-slm-deep'] }],
  workload: { requests: 1, arrivals: { kind: 'burst' }, promptTokens: 1, outputTokens: 1, modes: [{ mode: 'pice', share: 1 }] },
  // Of the demonstration model: models/demo/llm/pice-prompts.json, and sentences of the benchmark's tasks.
  policies: { pice: { sketchShares: [0.45, 0.38, 0.32], tokensPerSentence: 23, expansionsPerJob: 4, readsAlong: false } },
})
