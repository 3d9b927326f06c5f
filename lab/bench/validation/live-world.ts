import { blockwiseKv } from '../../../core/policy/admission/kv.ts'
import type { Board } from '../../simulate/hardware/board.ts'
import type { TransformerShape } from '../../simulate/hardware/model-shape.ts'
import type { Hardware } from '../../simulate/hardware/roofline.ts'
import type { Simulation } from '../../simulate/kernel/simulation.ts'
import type { EngineOptions } from '../../simulate/serving/engine-options.ts'
import { SimulatedEngine } from '../../simulate/serving/simulated-engine.ts'
import { Answer } from '../../simulate/world/answer.ts'
import type { AnswerRecord, RequestedAnswer } from '../../simulate/world/answer-record.ts'
import { EnergyMeter } from '../../simulate/world/energy-meter.ts'
import type { Mode } from '../../simulate/world/mode.ts'
import { Processor } from '../../simulate/world/processor.ts'
import type { SimulatedDevice } from '../../simulate/world/simulated-device.ts'
import { type LinkModel, SimulatedLink } from '../../simulate/world/simulated-link.ts'
import type { AnswerTimes } from './cells.ts'

/** Limits of a live bridge, as `brim bridge run` and its engine have them by default. */
export const bridge = {
  tokenBudget: 512,
  promptRows: 128,
  minPromptRows: 16,
  streams: 16,
  blockPositions: 64,
  contextLimit: 2_048,
} as const

/** KV as the bridge's engine reserves it. */
export const bridgeKv = (bytesPerPosition: number) => blockwiseKv({ ...bridge, firstPositions: 0, bytesPerPosition })

/** The engine of a live bridge without a slow tier, but for what is given. */
export const bridgeEngine = (
  simulation: Simulation,
  given: Pick<EngineOptions, 'policy' | 'stepS' | 'answerKv'> & Partial<EngineOptions>,
): SimulatedEngine =>
  new SimulatedEngine(simulation, {
    stepJitter: 0,
    deviceKv: given.answerKv,
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
    ...given,
  })

/** A device of which only times matter. */
export function liveDevice(
  simulation: Simulation,
  hardware: Hardware,
  {
    index,
    link,
    smallModels = [],
  }: { readonly index: number; readonly link: LinkModel; readonly smallModels?: readonly TransformerShape[] },
): SimulatedDevice {
  const power = { idleW: 0, computeW: 0, radioW: 0 }
  const board: Board = {
    name: hardware.name,
    hardware,
    power,
    powerModes: [],
    throttling: { sustained: 1, timeConstantS: 1 },
    measured: {},
    source: hardware.source,
  }
  return {
    index,
    group: 'devices',
    board,
    hardware,
    smallModels,
    processor: new Processor(simulation),
    link: new SimulatedLink(simulation, link, simulation.random('loss')),
    energy: new EnergyMeter(power),
  }
}

/** A request of a benchmark, and how it is answered. */
export interface LiveRequest extends Pick<RequestedAnswer, 'id' | 'atMs' | 'promptTokens' | 'outputTokens'> {
  readonly device?: number
  readonly mode: Mode
}

/** Lets everything happen. @returns the record of a request's answer; undefined where it has none */
export function answerAll(simulation: Simulation, requests: readonly LiveRequest[]): (id: number) => AnswerRecord | undefined {
  const ended = new Map<number, AnswerRecord>()
  const collector = { first() {}, gap() {}, ended: (record: AnswerRecord) => ended.set(record.id, record) }
  for (const { mode, device, ...request } of requests) {
    const answer = new Answer({ ...request, device, mode: '', part: '', sharedTokens: 0, tokensPerS: 1e6 }, simulation, collector)
    simulation.at(request.atMs, () => mode.begin(answer))
  }
  while (simulation.advance(100_000));
  return (id) => ended.get(id)
}

/** @param atMs of the request in its run */
export function recordTimes(atMs: number, record: AnswerRecord | undefined): AnswerTimes {
  if (!record) return { atMs, ttftMs: null, tbtMs: null, tookMs: null, tokens: 0 }
  const { ttftMs, tbtMs, endedMs, tokens } = record
  return { atMs, ttftMs, tbtMs: Number.isNaN(tbtMs) ? null : tbtMs, tookMs: endedMs - record.atMs, tokens }
}
