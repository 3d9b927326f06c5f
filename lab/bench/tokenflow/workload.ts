import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Random } from '../../../core/kit/base/random.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { mean, sum } from '../../frame/statistics.ts'
import { parseRequestTrace, type TracedRequest } from '../../simulate/traces/request-trace.ts'
import { normalQuantile } from '../hat/workload.ts'
import { shuffled } from '../shuffled.ts'

/** One request and its reader. */
export interface FlowRequest {
  /** Since the workload began. */
  readonly atMs: number
  readonly promptTokens: number
  readonly answerTokens: number
  /** Tokens per second that the reader takes. */
  readonly tokensPerS: number
}

/**
 * How requests arrive: all at once, by a Poisson process, or as recorded.
 * `load`: tokens asked for per second, over what the bridge generates per second while it is saturated.
 */
export type Arrivals =
  | { readonly kind: 'burst' }
  | { readonly kind: 'poisson'; readonly load: number }
  | { readonly kind: 'trace'; readonly file: TraceName; readonly load: number }

export interface Workload {
  readonly arrivals: Arrivals
  readonly requests: number
  /** Mean lengths; a trace's are scaled to them. */
  readonly promptTokens: number
  readonly answerTokens: number
  /** Sum of the rates of all readers, over what the bridge generates per second while it is saturated. */
  readonly readingLoad: number
  /** Groups of readers: their share, and their rates relative to each other. */
  readonly readers: readonly { readonly share: number; readonly rate: number }[]
}

/** The paper's lengths times this. */
export const lengthScale = 1 / 8
/** In shares of the mean; the paper gives no deviation. */
export const lengthDeviation = 0.2
/** Shortest and longest length, in multiples of the mean. */
const lengthRange = { min: 0.125, max: 3 }

/** "S" and "L" of the paper's Table 1 on the RTX 4090: prompts of 512 and 1,024 tokens, answers of 1,024 and 2,048. */
const lengths = {
  SS: { promptTokens: 512 * lengthScale, answerTokens: 1_024 * lengthScale },
  SL: { promptTokens: 512 * lengthScale, answerTokens: 2_048 * lengthScale },
  LL: { promptTokens: 1_024 * lengthScale, answerTokens: 2_048 * lengthScale },
}
const alike = [{ share: 1, rate: 1 }]
/** The paper's 20, 25 and 30 tokens/s become 60, 75 and 90 % of what the bridge generates. */
export const readingLoads = { 20: 0.6, 25: 0.75, 30: 0.9 } as const
const burst = { arrivals: { kind: 'burst' }, requests: 60, ...lengths.SL, readers: alike } as const

/** Not of the paper: many readers at once, of whom the fastest take four times as much as the slowest. */
const crowd = {
  ...burst,
  ...lengths.SS,
  requests: 300,
  readers: [1, 2, 3, 4].map((rate) => ({ share: 0.25, rate })),
} as const

const table = {
  'burst 60 SL': { ...burst, readingLoad: readingLoads[25] },
  'burst 80 LL': { ...burst, ...lengths.LL, requests: 80, readingLoad: readingLoads[25] },
  'Poisson 2': { ...burst, arrivals: { kind: 'poisson', load: 2 }, readingLoad: readingLoads[25] },
  'Poisson 4': { ...burst, arrivals: { kind: 'poisson', load: 4 }, readingLoad: readingLoads[25] },
  azure: {
    ...burst,
    ...lengths.LL,
    arrivals: { kind: 'trace', file: 'azure-2023-conversation', load: 2 },
    requests: 80,
    readingLoad: readingLoads[25],
  },
  mooncake: {
    ...burst,
    ...lengths.LL,
    arrivals: { kind: 'trace', file: 'mooncake-conversation', load: 2 },
    requests: 80,
    readingLoad: readingLoads[25],
  },
  'rate 20': { ...burst, readingLoad: readingLoads[20] },
  'rate 30': { ...burst, readingLoad: readingLoads[30] },
  'rates 15 and 20': {
    ...burst,
    readingLoad: readingLoads[25],
    readers: [
      { share: 0.4, rate: 15 },
      { share: 0.6, rate: 20 },
    ],
  },
  'matched crowd': { ...crowd, readingLoad: 1 },
  'overloading crowd': { ...crowd, readingLoad: 4.5 },
} as const satisfies Record<string, Workload>

export type WorkloadName = keyof typeof table
export const workloads: Readonly<Record<WorkloadName, Workload>> = table
export const workloadNames = Object.keys(table) as WorkloadName[]

/**
 * The requests of a workload in the order of their arrival.
 * @param saturatedTokensPerS what the bridge generates while it is saturated: rates of arrival and of reading follow it
 */
export function requestsOf(workload: Workload, saturatedTokensPerS: number, random: Random): FlowRequest[] {
  const { arrivals, requests: count } = workload
  const shapes = arrivals.kind === 'trace' ? tracedShapes(arrivals.file, workload) : normalShapes(workload, random)
  const rates = ratesOf(workload, saturatedTokensPerS, random)
  const answerTokens = sum(shapes.map((shape) => shape.answerTokens))
  const spanMs = arrivals.kind === 'burst' ? 0 : (1_000 * answerTokens) / (arrivals.load * saturatedTokensPerS)
  const times = timesOf(arrivals, count, spanMs, random)
  return shapes.map((shape, i) => ({ atMs: times[i]!, ...shape, tokensPerS: rates[i]! }))
}

/** Equally spaced quantiles of a normal distribution, shuffled: each seed has the same work. */
function normalShapes({ requests: count, promptTokens, answerTokens }: Workload, random: Random): Shape[] {
  const around = (middle: number) =>
    shuffled(
      Array.from({ length: count }, (_, i) =>
        inRange(middle * (1 + lengthDeviation * normalQuantile((i + 0.5) / count)), middle),
      ),
      random,
    )
  const [prompts, answers] = [around(promptTokens), around(answerTokens)]
  return prompts.map((tokens, i) => ({ promptTokens: tokens, answerTokens: answers[i]! }))
}

type Shape = Pick<FlowRequest, 'promptTokens' | 'answerTokens'>

function tracedShapes(file: TraceName, { requests: count, ...means }: Workload): Shape[] {
  const trace = readTrace(file).slice(0, count)
  const scaled = (lengths: readonly number[], to: number) => {
    const factor = to / (mean(lengths) ?? 1)
    return lengths.map((length) => inRange(length * factor, to))
  }
  const prompts = scaled(
    trace.map(({ promptTokens }) => promptTokens),
    means.promptTokens,
  )
  const answers = scaled(
    trace.map(({ outputTokens }) => outputTokens),
    means.answerTokens,
  )
  return prompts.map((promptTokens, i) => ({ promptTokens, answerTokens: answers[i]! }))
}

const inRange = (tokens: number, middle: number): number =>
  Math.round(Math.min(lengthRange.max * middle, Math.max(lengthRange.min * middle, tokens)))

function ratesOf({ readers, requests: count, readingLoad }: Workload, saturatedTokensPerS: number, random: Random): number[] {
  const relative = readers.flatMap(({ share, rate }) => Array.from({ length: Math.round(share * count) }, () => rate))
  const unit = (readingLoad * saturatedTokensPerS) / sum(relative)
  return shuffled(relative, random).map((rate) => rate * unit)
}

function timesOf(arrivals: Arrivals, count: number, spanMs: number, random: Random): number[] {
  if (arrivals.kind === 'burst') return Array.from({ length: count }, () => 0)
  let atMs = 0
  const next = () => {
    atMs -= Math.log(1 - random.next())
    return atMs
  }
  const times =
    arrivals.kind === 'poisson'
      ? Array.from({ length: count }, next)
      : readTrace(arrivals.file)
          .slice(0, count)
          .map((request) => request.atMs)
  const last = times.at(-1) ?? 0
  return times.map((atMs) => (last === 0 ? 0 : (atMs / last) * spanMs))
}

const traceNames = ['azure-2023-conversation', 'mooncake-conversation'] as const
export type TraceName = (typeof traceNames)[number]

/** As recorded, in the order of arrival. */
export function readTrace(name: TraceName): TracedRequest[] {
  const file = fileURLToPath(new URL(`lab/bench/tokenflow/traces/${name}.csv`, projectRoot))
  return parseRequestTrace(readFileSync(file, 'utf8'), file)
}
