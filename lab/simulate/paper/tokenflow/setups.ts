import { Scenario } from '../../scenario/scenario.ts'

interface Server {
  readonly gpu: string
  readonly model: string
  /** Of the GPU's memory, for weights and KV. */
  readonly memoryShare: number
  /** SGLang's default for the size of the memory. */
  readonly chunkRows: number
  readonly requests: number
}

/** A row of the paper's Table 1, or a machine of another figure. */
interface Drawn extends Server {
  /** Requests per second; undefined: all at once. */
  readonly perS?: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/** Recorded requests. */
interface Recorded extends Server {
  /** In the folder of the traces. */
  readonly file: string
  readonly skipS: number
  /** How many times as fast as recorded. */
  readonly speed: number
}

/**
 * §7.3 names no model for the RTX 4090. Of the paper's three, Llama3-8B leaves memory for 48,000 positions, which makes the totals of
 * Table 2 impossible at any speed of the steps (25 answers at once); Qwen2-7B, with a KV of less than half, does not.
 */
const rtx4090 = { gpu: 'rtx-4090', model: 'qwen2-7b', memoryShare: 0.88, chunkRows: 2_048 }
const h200 = { gpu: 'h200', model: 'llama3-8b', memoryShare: 0.3, chunkRows: 8_192 }
/** Seconds of Poisson arrivals: the paper does not say how many. */
const arrivalsS = 60
const poisson = (perS: number) => ({ perS, requests: perS * arrivalsS })
const onRtx4090 = { S: { promptTokens: 512, outputTokens: 2_048 }, L: { promptTokens: 1_024, outputTokens: 2_048 } }
const onH200 = { S: { promptTokens: 512, outputTokens: 4_096 }, L: { promptTokens: 1_024, outputTokens: 4_096 } }

export const setups = {
  '4090 (a)': { ...rtx4090, requests: 60, ...onRtx4090.S },
  '4090 (b)': { ...rtx4090, requests: 80, ...onRtx4090.L },
  '4090 (c)': { ...rtx4090, ...poisson(2), ...onRtx4090.S },
  '4090 (d)': { ...rtx4090, ...poisson(4), ...onRtx4090.S },
  'H200 (a)': { ...h200, requests: 400, ...onH200.S },
  'H200 (b)': { ...h200, requests: 200, ...onH200.L },
  'H200 (c)': { ...h200, ...poisson(5), ...onH200.S },
  'H200 (d)': { ...h200, ...poisson(10), ...onH200.S },
  'Ascend 910B, burst': {
    ...{ gpu: 'ascend-910b', model: 'llama3-8b', memoryShare: 0.5, chunkRows: 8_192 },
    ...{ requests: 100, ...onRtx4090.L },
  },
} satisfies Readonly<Record<string, Drawn>>

/**
 * In place of BurstGPT and of a provider's trace (§7.1.2). A part without gaps of each: azure-llm-2023 and mooncake are samples of blocks
 * of two minutes. The paper does not say how fast it replays its own: these ask for 1.2 times what SGLang generates when it is always busy.
 */
const azure = { file: 'azure-llm-2023/AzureLLMInferenceTrace_conv.csv', skipS: 2_280 }
const mooncake = { file: 'mooncake/conversation_trace.jsonl.gz', skipS: 480 }
const a6000 = { gpu: 'a6000', model: 'qwen2.5-7b', memoryShare: 0.88, chunkRows: 8_192 }
export const recordings = {
  'A6000, Azure': { ...a6000, ...azure, requests: 1_500, speed: 1.08 },
  'A6000, Mooncake': { ...a6000, ...mooncake, requests: 500, speed: 0.129 },
  'H200, Azure': { ...h200, ...azure, requests: 4_000, speed: 4.83 },
  'H200, Mooncake': { ...h200, ...mooncake, requests: 1_500, speed: 0.512 },
  /** Figs. 14 and 15. */
  'H200, Qwen2.5-32B, Azure': {
    ...{ gpu: 'h200', model: 'qwen2.5-32b', memoryShare: 0.88, chunkRows: 8_192 },
    ...{ ...azure, requests: 4_300, speed: 1.37 },
  },
} satisfies Readonly<Record<string, Recorded>>
export type RecordingName = keyof typeof recordings
export type SetupName = keyof typeof setups | RecordingName

export const isRecording = (name: SetupName): name is RecordingName => name in recordings

/** The systems that are compared. Times of a plan are those of §7.6; Andes is built on SGLang. */
export const servers = {
  SGLang: { policy: 'fcfs', reserves: 'share', planMs: 0.07 },
  'SGLang (chunked)': { policy: 'chunked', reserves: 'share', planMs: 0.07 },
  Andes: { policy: 'andes', planMs: 0.07 },
  /** Steps wait for the KV that moves: the scheduler starts the copies and awaits them (§5.2). */
  TokenFlow: { policy: 'tokenflow', planMs: 0.4, slowBytes: 256e9, waitsForTransfers: true },
  /** Plans as `brim bench tokenflow-plan` measures them at 1,000 requests, and transfers beside the steps. */
  Brim: { policy: 'tokenflow', planMs: 0.1, slowBytes: 256e9, waitsForTransfers: false },
} as const
export type ServerName = keyof typeof servers

/** What is left out in the ablation of Table 2. */
const without = {
  offload: { slowBytes: 0 },
  'write-through': { writeThrough: false },
  'load–evict overlap': { overlap: false },
} as const

export interface Case {
  readonly setup: SetupName
  readonly server: ServerName
  /** That readers take; default: 20. */
  readonly tokensPerS?: number
  /** Δt and μ_b of TokenFlow. */
  readonly intervalMs?: number
  readonly conservativeness?: number
  readonly without?: keyof typeof without
}

/** Of the lengths, as a share of their mean; the paper states a normal distribution alone. */
export const lengthDeviation = 0.1
/** The slowest of the paper's sweep over rates (20, 25, 30). */
export const defaultTokensPerS = 20

/** Same name, same scenario. */
export const nameOf = ({ setup, server, ...changes }: Case): string =>
  [setup, server, ...Object.entries(changes).map(([name, value]) => `${name} ${value}`)].join(', ')

export function scenarioOf(one: Case, seed: number): Scenario {
  const { setup, server, intervalMs, conservativeness } = one
  const { gpu, model, memoryShare, chunkRows, requests }: Server = isRecording(setup) ? recordings[setup] : setups[setup]
  return Scenario.parse({
    name: nameOf(one),
    seed,
    cloud: {
      ...{ gpu, model, memoryShare },
      ...{ stepStreams: 1_024, stepRows: 16_384, promptRows: chunkRows },
      ...servers[server],
      ...(one.without && without[one.without]),
    },
    workload: {
      requests,
      ...(isRecording(setup) ? recordedWorkload(recordings[setup]) : drawnWorkload(setups[setup])),
      readers: [{ tokensPerS: one.tokensPerS ?? defaultTokensPerS, share: 1 }],
      modes: [{ mode: 'cloud' }],
    },
    policies: { tokenflow: { ...(intervalMs && { intervalMs }), ...(conservativeness && { conservativeness }) } },
  })
}

function drawnWorkload({ perS, promptTokens, outputTokens }: Drawn) {
  const lengths = (mean: number) => ({ kind: 'normal', mean, deviation: lengthDeviation * mean })
  return {
    arrivals: perS === undefined ? { kind: 'burst' } : { kind: 'poisson', perS },
    promptTokens: lengths(promptTokens),
    outputTokens: lengths(outputTokens),
    maxOutputTokens: 2 * outputTokens,
  }
}

const recordedWorkload = ({ file, skipS, speed }: Recorded) => ({ arrivals: { kind: 'trace', file, skipS, speed } })
