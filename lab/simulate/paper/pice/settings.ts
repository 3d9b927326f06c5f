import { Scenario } from '../../scenario/scenario.ts'
import { abilities, published, publishedOf } from './published.ts'

/** 'Brim': PICE with what this project adds to it. */
export const methods = ['cloud-only', 'edge-only', 'routing', 'PICE static', 'PICE', 'Brim'] as const
export type Method = (typeof methods)[number]

/** What is varied: nothing (Table III), requests per minute, waiting expansions, Mbit/s, or a suspected cause of a difference. */
export type Measured = 'table' | 'load' | 'queue' | 'bandwidth' | 'cause'

export interface Setting {
  readonly measured: Measured
  readonly method: Method
  readonly model: string
  /** Requests per minute. */
  readonly rpm: number
  /** Expansions that may wait for all devices together; undefined: PICE's one, Brim's two for each device. */
  readonly queue?: number
  readonly mbitPerS?: number
  /** Of a router: the share of the questions that it gives to devices, and their small model. */
  readonly edgeShare?: number
  readonly router?: string
  readonly requests?: number
  /** Shorter answers are not sketched. */
  readonly minTokens?: number
}

export interface Plan {
  readonly seeds: number
  readonly rpms: readonly number[]
  readonly queues: readonly number[]
  readonly mbitsPerS: readonly number[]
  readonly edgeShares: readonly number[]
  /** Of static scheduling. */
  readonly minTokens: readonly number[]
  /** Of the requests of each setting. */
  readonly share: number
}

export const fullPlan: Plan = {
  seeds: 5,
  rpms: [5, 10, 15, 20, 25, 30, 40, 60],
  queues: [1, 2, 4, 8, 12, 16],
  mbitsPerS: [1, 10, 100, 1_000],
  edgeShares: [0.1, 0.2, 0.3, 0.5],
  minTokens: [400, 600, 800, 1_000],
  share: 1,
}

export const quickPlan: Plan = {
  ...fullPlan,
  seeds: 2,
  rpms: [10, 20, 30, 60],
  queues: [1, 4, 8, 16],
  mbitsPerS: [1, 100],
  edgeShares: [0.2, 0.3],
  minTokens: [600, 1_000],
}

/** Of the performance breakdown and the sensitivity analysis (§V-C, D). */
export const studied = 'llama3-70b'

/** The testbed: four A100, four AGX Orin. */
export const devices = 4
/**
 * The 80 questions of MT-bench and the 80 of Vicuna-bench. The paper does not say how many a run has, on which mean latency depends
 * wherever more arrive than are answered.
 */
export const questions = 160
export const moreQuestions = 240
/** Tokens of an answer: the mean is the paper's (§II-B), the spread that of chat answers. */
export const answerTokens = { mean: 500, sigma: 0.5, max: 2_048 }
const promptTokens = 80

/**
 * What its frameworks reach, the same for all models and methods. Batches: the paper's 20 streams of the 72B get 6 tokens/s each
 * where one alone gets 18.19, whatever a roofline says; the two constants of it give the twelve cells of cloud-only. Devices:
 * PyTorch and Transformers, whose kernels are launched one by one; they give the throughput of edge-only.
 */
export const testbed = {
  cloud: {
    /** Of the matrix units, in rows of decoding. */
    decode: 0.035,
    /** vLLM's Python, for each stream of a step. */
    streamMs: 0.6,
  },
  device: { memory: 0.65, decode: 0.035, layerMs: 0.4 },
  /** Answers that a device decodes at once where it answers alone, and sentences where it expands. */
  answersAtOnce: 2,
  sentencesAtOnce: 4,
}
/** The share of the questions that the router gives to devices: it fits the throughput of 70B and 72B. */
export const edgeShare = 0.4
const mbitPerS = 100

/**
 * The maximum batch: 20 for the 72B, the others' in proportion to their speeds (Table I). That of the 32B there is of one GPU, so that its
 * weights do not count for what four of them give: it counts with 35 tokens/s, the roofline of two.
 */
export function batchOf(model: string): number {
  const speed = model === 'qwen2.5-32b' ? 35 : publishedOf(model).tokensPerS
  return Math.round((20 * speed) / publishedOf('qwen2.5-72b').tokensPerS)
}

/** RPM: 1.5 times the maximum batch (§V-B). */
export const tableRpm = (model: string): number => 1.5 * batchOf(model)

/** Smaller than the cloud's, or the smallest of all. */
export function smallModelsFor(model: string): readonly string[] {
  const smaller = published.filter(({ model: name, size }) => name in abilities && size < publishedOf(model).size)
  return smaller.length > 0 ? smaller.map((small) => small.model) : ['qwen2.5-1.5b']
}

/** A router's small model: the largest that the LLM exceeds ten times, as the paper recommends, else the smallest. */
export function routersModel(model: string): string {
  const { size } = publishedOf(model)
  const fitting = published.filter((small) => smallModelsFor(model).includes(small.model) && 10 * small.size <= size)
  return fitting[0]?.model ?? 'qwen2.5-1.5b'
}

export function settingsOf({ rpms, queues, mbitsPerS, edgeShares, minTokens }: Plan): Setting[] {
  const of = (measured: Measured, method: Method, more: Partial<Setting> = {}): Setting => {
    const model = more.model ?? studied
    return { measured, method, model, rpm: tableRpm(model), ...more }
  }
  const compared = ['cloud-only', 'routing', 'PICE', 'Brim'] as const
  return [
    ...published.flatMap(({ model, local }) => [
      ...compared.map((method) => of('table', method, { model })),
      ...(local ? [of('table', 'edge-only', { model })] : []),
    ]),
    of('table', 'PICE static'),
    ...rpms.flatMap((rpm) => compared.map((method) => of('load', method, { rpm }))),
    ...queues.flatMap((queue) => [of('queue', 'PICE', { queue }), of('queue', 'Brim', { queue })]),
    ...mbitsPerS.flatMap((mbit) => compared.map((method) => of('bandwidth', method, { mbitPerS: mbit }))),
    ...published.flatMap(({ model }) => edgeShares.map((share) => of('cause', 'routing', { model, edgeShare: share }))),
    ...published.flatMap(({ model }) =>
      smallModelsFor(model)
        .filter((small) => small !== routersModel(model))
        .flatMap((router) =>
          [edgeShares[0]!, edgeShare].map((share) => of('cause', 'routing', { model, edgeShare: share, router })),
        ),
    ),
    ...published.map(({ model }) => of('cause', 'routing', { model, requests: moreQuestions })),
    ...minTokens.map((least) => of('cause', 'PICE static', { minTokens: least })),
    ...published.map(({ model }) => of('cause', 'PICE', { model, requests: moreQuestions })),
    ...(['cloud-only', 'Brim'] as const).map((method) => of('cause', method, { requests: moreQuestions })),
  ]
}

const modeOf = {
  'cloud-only': 'cloud',
  'edge-only': 'local',
  routing: 'routing',
  'PICE static': 'static',
  PICE: 'pice',
  Brim: 'pice',
} as const

export function scenarioOf(setting: Setting, seed: number): Scenario {
  const { method, model, rpm, queue, requests = questions } = setting
  const bytesPerS = ((setting.mbitPerS ?? mbitPerS) * 1e6) / 8
  const smallModels =
    method === 'edge-only' ? [model] : method === 'routing' ? [setting.router ?? routersModel(model)] : [...smallModelsFor(model)]
  // Without limits of time, and of answers that count when they are complete: the paper knows no others.
  const unlimited = { sketchS: 3_600, expansionS: 3_600, abilities, readsAlong: false }
  const least = setting.minTokens === undefined ? {} : { minTokens: setting.minTokens }
  const waiting = queue === undefined ? {} : { waitingPerDevice: queue / devices }
  const paper = {
    overlaps: false,
    countsSketching: false,
    sparesDevices: false,
    sharesPrefix: false,
    waitingPerDevice: 1,
    sequences: testbed.sentencesAtOnce,
  }
  const { mean, sigma, max } = answerTokens
  return Scenario.parse({
    name: `${method}, ${model}`,
    seed,
    cloud: {
      model,
      gpu: 'a100-80',
      gpus: 4,
      policy: 'fcfs',
      answersAtOnce: batchOf(model),
      reaches: { decode: testbed.cloud.decode },
      streamMs: testbed.cloud.streamMs,
    },
    devices: [
      {
        name: 'jetsons',
        count: devices,
        board: 'agx-orin-64',
        smallModels,
        reaches: testbed.device,
        link: { up: bytesPerS, down: bytesPerS, rttMs: 10 },
      },
    ],
    policies: {
      pice: { ...unlimited, ...(method === 'Brim' ? {} : paper), ...waiting, ...least },
      local: { answersAtOnce: testbed.answersAtOnce },
      routing: { edgeShare: setting.edgeShare ?? edgeShare },
    },
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS: rpm / 60 },
      promptTokens,
      outputTokens: { kind: 'lognormal', median: mean / Math.exp(sigma ** 2 / 2), sigma, max },
      modes: [{ mode: modeOf[method], groups: [] }],
    },
  })
}
