import { createServingPolicy } from '../../baselines/serving-policies.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { fromColumns } from '../../frame/columns.ts'
import { predictedS } from '../../simulate/calibrate/measured-steps.ts'
import { wholeModel } from '../../simulate/hardware/model-shape.ts'
import { modelNamed } from '../../simulate/hardware/presets/presets.ts'
import type { Hardware } from '../../simulate/hardware/roofline.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import { stepCost } from '../../simulate/serving/step-cost.ts'
import { Processor } from '../../simulate/world/processor.ts'
import type { KeptFlowRun, KeptFlowSample } from '../tokenflow/runs.ts'
import { servers } from '../tokenflow/servers.ts'
import { type AnswerTimes, cellsOf, type ValidationCell } from './cells.ts'
import { bridge, bridgeEngine, bridgeKv } from './live-world.ts'

/** The workload on which the constants below are fitted: its errors are those of a fit, and are not counted. */
export const fittedWorkload = 'burst 60 SL'
/** Of copies between tiers in the bridge's memory, which share the core with its steps. */
const copyBytesPerS = 2e8
/** Of the bridge's core for each request: HTTP, its prompt, and its share of the core while steps compute. */
const requestS = 4e-3
/** Rows of answers, which go through all parts of the model on the bridge, over rows of devices, which go through its middle. */
const rowFactor = 2
/** Streams and their context in the bench's saturated bridge, which gives the time that each stream of a step takes in all. */
const saturated = { streams: 16, rows: 1, context: 144, chosen: 16, seconds: [] }

/**
 * Each run again, with its own requests.
 *
 * @param machine as HAT's steps show it
 */
export function validateTokenflow({ runs }: BenchDocument, machine: Hardware): ValidationCell[] {
  const all = runs as readonly KeptFlowRun[]
  const hardware = answeringMachine(machine, all[0]!.saturatedTokensPerS)
  return all
    .filter(({ workload }) => workload !== fittedWorkload)
    .flatMap((run) => {
      const { measured, workload, server, seed } = run
      const samples = fromColumns(run.samples)
      const name = `${measured}, ${workload}, ${server}, seed ${seed}`
      return cellsOf('tokenflow', name, samples.map(liveTimes), simulate(run, samples, hardware))
    })
}

/**
 * The machine when it writes answers: with what choosing, decoding and sending tokens take, which HAT leaves to devices, and without
 * what separate sessions cost: the streams of a step take as long as a saturated bridge shows.
 */
function answeringMachine(machine: Hardware, saturatedTokensPerS: number): Hardware {
  const shape = modelNamed('brim-demo')
  const hardware = { ...machine, flopPerS: machine.flopPerS / rowFactor }
  const missingS = saturated.streams / saturatedTokensPerS - predictedS(hardware, { shape, part: wholeModel(shape) }, saturated)
  return { ...hardware, streamS: Math.max(0, hardware.streamS + missingS / saturated.streams / shape.layers) }
}

function liveTimes({ atMs, firstMs, lastMs, tokens }: Omit<KeptFlowSample, 'promptTokens' | 'tokensPerS'>): AnswerTimes {
  const tbtMs = tokens > 1 ? (lastMs! - firstMs!) / (tokens - 1) : null
  return { atMs, ttftMs: firstMs, tbtMs, tookMs: lastMs, tokens }
}

const timesOf = (atMs: number, arrivals: readonly number[]): AnswerTimes =>
  liveTimes({ atMs, firstMs: arrivals[0] ?? null, lastMs: arrivals.at(-1) ?? null, tokens: arrivals.length })

function simulate(run: KeptFlowRun, samples: readonly KeptFlowSample[], hardware: Hardware): AnswerTimes[] {
  const { policy, tier } = servers[run.server]
  const shape = modelNamed('brim-demo')
  const simulation = new Simulation(run.seed)
  const flags: readonly string[] = tier
  const engine = bridgeEngine(simulation, {
    policy: createServingPolicy(policy, bridge),
    stepS: stepCost(hardware, shape),
    answerKv: bridgeKv(wholeModel(shape).kvBytesPerPosition),
    memoryBytes: run.fastBytes,
    slowBytes: flags.includes('memory') ? 4 * 2 ** 30 : 0,
    transferBytesPerS: copyBytesPerS,
    writeThrough: !flags.includes('--no-kv-write-through'),
    overlap: !flags.includes('--no-kv-overlap'),
  })
  const handling = new Processor(simulation)
  const arrivals = samples.map((sample): number[] => {
    const own: number[] = []
    const { atMs, promptTokens, tokensPerS, tokens: outputTokens } = sample
    if (outputTokens === 0) return own
    const ask = () => {
      const token = () => own.push(simulation.nowMs - atMs)
      engine.answer({ promptTokens, outputTokens, cachedTokens: 0, tokensPerS, token, refused() {} })
    }
    simulation.at(atMs, () => handling.run(requestS, ask))
    return own
  })
  while (simulation.advance(100_000));
  return samples.map(({ atMs }, at) => timesOf(atMs, arrivals[at]!))
}
