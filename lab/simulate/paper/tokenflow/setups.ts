import { Scenario } from '../../scenario/scenario.ts'

/** A row of the paper's Table 1, or a machine of another figure. */
interface Setup {
  readonly gpu: string
  readonly model: string
  /** Of the GPU's memory, for weights and KV. */
  readonly memoryShare: number
  /** SGLang's default for the size of the memory. */
  readonly chunkRows: number
  readonly requests: number
  /** Requests per second; undefined: all at once. */
  readonly perS?: number
  readonly promptTokens: number
  readonly outputTokens: number
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
} satisfies Readonly<Record<string, Setup>>
export type SetupName = keyof typeof setups

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
  const { gpu, model, memoryShare, chunkRows, requests, promptTokens, outputTokens, ...arrival }: Setup = setups[one.setup]
  const lengths = (mean: number) => ({ kind: 'normal', mean, deviation: lengthDeviation * mean })
  const { intervalMs, conservativeness } = one
  return Scenario.parse({
    name: nameOf(one),
    seed,
    cloud: {
      ...{ gpu, model, memoryShare },
      ...{ stepStreams: 1_024, stepRows: 16_384, promptRows: chunkRows },
      ...servers[one.server],
      ...(one.without && without[one.without]),
    },
    workload: {
      requests,
      arrivals: arrival.perS === undefined ? { kind: 'burst' } : { kind: 'poisson', perS: arrival.perS },
      promptTokens: lengths(promptTokens),
      outputTokens: lengths(outputTokens),
      maxOutputTokens: 2 * outputTokens,
      readers: [{ tokensPerS: one.tokensPerS ?? defaultTokensPerS, share: 1 }],
      modes: [{ mode: 'cloud' }],
    },
    policies: { tokenflow: { ...(intervalMs && { intervalMs }), ...(conservativeness && { conservativeness }) } },
  })
}
