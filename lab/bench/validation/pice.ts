import { createPolicy } from '../../../core/policy/tokenflow/named-policies.ts'
import type { StepPace } from '../../cluster/cluster.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { fromColumns } from '../../frame/columns.ts'
import { type TransformerShape, wholeModel } from '../../simulate/hardware/model-shape.ts'
import { gpuNamed, modelNamed } from '../../simulate/hardware/presets/presets.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import { cloudMode } from '../../simulate/modes/cloud.ts'
import { localMode } from '../../simulate/modes/local.ts'
import { sketchMode } from '../../simulate/modes/pice/sketch-mode.ts'
import { Scenario } from '../../simulate/scenario/scenario.ts'
import type { Mode } from '../../simulate/world/mode.ts'
import type { World } from '../../simulate/world/world.ts'
import type { Capacity, KeptPiceRun, KeptPiceSample } from '../pice/runs.ts'
import { type AnswerTimes, cellsOf, type ValidationCell } from './cells.ts'
import { answerAll, bridge, bridgeEngine, bridgeKv, liveDevice, recordTimes } from './live-world.ts'

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
  const warming = Array.from({ length: warmUp.answers }, (_, i) => {
    const outputTokens = Math.round(conditions.capacity.cloudTokens)
    return { id: -1 - i, atMs: 0, mode: modes.cloud, promptTokens, outputTokens }
  })
  const requests = samples.map((sample, id) => {
    const outputTokens = Math.max(1, sample.tokens ?? 1)
    return { id, atMs: warmUp.ms + sample.atMs, mode: methodOf(run, sample, modes), promptTokens, outputTokens }
  })
  const recordOf = answerAll(simulation, [...warming, ...requests])
  return samples.map(({ atMs }, id) => {
    const record = recordOf(id)
    const times = recordTimes(atMs, record)
    return record && record.sketchTokens > 0 ? { ...times, tbtMs: null } : times
  })
}

/** Which answers are routed to devices is the router's choice, which texts decide: it is taken over. */
const methodOf = ({ method }: KeptPiceRun, { by }: KeptPiceSample, modes: Readonly<Record<KeptPiceSample['by'], Mode>>): Mode =>
  method === 'PICE' || method === 'PICE static' ? modes.sketch : by === 'device' ? modes.device : modes.cloud

const modeOf = ({ method }: KeptPiceRun, world: World): Mode => sketchMode(world, method === 'PICE static' ? 'static' : 'dynamic')

function worldOf(simulation: Simulation, { plan, capacity }: Conditions): World {
  const { device: pace } = plan.paces
  const llm = modelNamed('brim-demo')
  const small = pacedShape(modelNamed('brim-demo-slm-deep'))
  const hardware = {
    ...gpuNamed('a40'),
    bytesPerS: Number.POSITIVE_INFINITY,
    flopPerS: (1_000 * wholeModel(small).flopPerRow) / pace.rowMs,
    layerS: pace.stepMs / 1_000 / small.layers,
    streamS: 0,
  }
  const rate = { intervalMs: Number.POSITIVE_INFINITY, bytesPerS: [1e9] }
  const link = { up: rate, down: rate, rttMs: loopbackRttMs }
  const engine = bridgeEngine(simulation, {
    policy: createPolicy('decode-first', bridge),
    stepS: pacedStepS(plan.paces.cloud, capacity),
    answerKv: bridgeKv(wholeModel(llm).kvBytesPerPosition),
  })
  return {
    simulation,
    scenario,
    devices: Array.from({ length: plan.devices }, (_, index) =>
      liveDevice(simulation, hardware, { index, link, smallModels: [small] }),
    ),
    model: llm,
    engines: [engine],
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
const pacedShape = (shape: TransformerShape): TransformerShape => ({ ...shape, heads: 0, kvHeads: 0, vocabulary: 0 })

/** What modes read of it; requests come from the document. */
const scenario = Scenario.parse({
  name: 'pice',
  cloud: { model: 'brim-demo', gpu: 'a40' },
  devices: [{ name: 'devices', count: 1, board: 'orin-nano', link: { up: 1e9, down: 1e9 }, smallModels: ['brim-demo-slm-deep'] }],
  workload: { requests: 1, arrivals: { kind: 'burst' }, promptTokens: 1, outputTokens: 1, modes: [{ mode: 'pice', share: 1 }] },
  // Of the demonstration model: models/demo/llm/pice-prompts.json, and sentences of the benchmark's tasks.
  policies: { pice: { sketchShares: [0.45, 0.38, 0.32], tokensPerSentence: 23, expansionsPerJob: 4, readsAlong: false } },
})
