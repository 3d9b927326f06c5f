import type { Random } from '../../../core/base/random.ts'
import type { BenchPrompt } from '../prompts.ts'

export const workloadNames = ['short', 'long'] as const
export type WorkloadName = (typeof workloadNames)[number]

/** Tokens of the paper's prompts: SpecBench and CNN/DM. */
export const promptLengths: Readonly<Record<WorkloadName, { readonly mean: number; readonly deviation: number }>> = {
  short: { mean: 351.2, deviation: 397.3 },
  long: { mean: 1_036.6, deviation: 511.8 },
}
/** Shorter ones ask nothing; longer ones leave no room for an answer in the demonstration model's context. */
export const lengthLimits = { least: 24, most: 1_900 }

/** A prompt of a wanted length. */
export interface HatPrompt {
  readonly id: string
  readonly ids: readonly number[]
}

/**
 * Lengths of so many prompts: the quantiles of a log-normal distribution of this mean and deviation, so that few prompts
 * have its shape as well as may be, cut to the limits.
 */
export function lengthsOf({ mean, deviation }: { mean: number; deviation: number }, count: number): number[] {
  const variance = Math.log(1 + (deviation / mean) ** 2)
  const mu = Math.log(mean) - variance / 2
  return Array.from({ length: count }, (_, i) => {
    const length = Math.round(Math.exp(mu + Math.sqrt(variance) * normalQuantile((i + 0.5) / count)))
    return Math.min(lengthLimits.most, Math.max(lengthLimits.least, length))
  })
}

/** Inverse of the standard normal distribution by bisection of its density's integral (Simpson's rule), 0 < p < 1. */
export function normalQuantile(p: number): number {
  let [low, high] = [-8, 8]
  for (let i = 0; i < 50; i++) {
    const middle = (low + high) / 2
    if (normalShare(middle) < p) low = middle
    else high = middle
  }
  return (low + high) / 2
}

function normalShare(x: number): number {
  const steps = 200
  const width = x / steps
  const density = (z: number) => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)
  let sum = density(0) + density(x)
  for (let i = 1; i < steps; i++) sum += (i % 2 === 1 ? 4 : 2) * density(i * width)
  return 0.5 + (sum * width) / 3
}

/**
 * A prompt of exactly so many tokens: a dialogue's question, with as many other dialogues before it as it takes, cut at
 * the front.
 * @param at which question; what stands before it follows from that too
 * @param eos ends each answer before it
 */
export function promptOfLength(
  dialogues: readonly BenchPrompt[],
  at: number,
  length: number,
  eos: number | undefined,
): HatPrompt {
  // Where there is one that fits, the question is whole.
  const order = Array.from({ length: dialogues.length }, (_, i) => dialogues[(at + i) % dialogues.length]!)
  const question = order.find(({ ids }) => ids.length <= length) ?? order[0]!
  let ids = [...question.ids]
  for (let i = 1; ids.length < length; i++) {
    const { ids: asked, answerIds = [] } = dialogues[(at + i) % dialogues.length]!
    ids = [...asked, ...answerIds, ...(eos === undefined ? [] : [eos]), ...ids]
  }
  return { id: `${question.id}@${length}`, ids: ids.slice(-length) }
}

/** Prompts of a workload, the lengths in a shuffled order. */
export function workloadOf(
  dialogues: readonly BenchPrompt[],
  name: WorkloadName,
  count: number,
  eos: number | undefined,
  random: Random,
): HatPrompt[] {
  const lengths = shuffled(lengthsOf(promptLengths[name], count), random)
  const from = Math.floor(random.next() * dialogues.length)
  return lengths.map((length, i) => promptOfLength(dialogues, (from + 7 * i) % dialogues.length, length, eos))
}

export interface Arrival {
  readonly atMs: number
  /** Into the devices. */
  readonly device: number
  /** Into the prompts. */
  readonly prompt: number
}

/** Requests of a Poisson process, devices in a shuffled turn, every prompt as often as any other. */
export function arrivalsOf(
  count: number,
  perS: number,
  { devices, prompts }: { devices: number; prompts: number },
  random: Random,
): Arrival[] {
  const turns = Array.from({ length: Math.ceil(count / prompts) }, () => shuffled([...Array(prompts).keys()], random)).flat()
  const rounds = Array.from({ length: Math.ceil(count / devices) }, () => shuffled([...Array(devices).keys()], random)).flat()
  let atMs = 0
  return Array.from({ length: count }, (_, i) => {
    atMs += (-Math.log(1 - random.next()) / perS) * 1_000
    return { atMs, device: rounds[i]!, prompt: turns[i]! }
  })
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const result = [...items]
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random.next() * (i + 1))
    ;[result[i], result[j]] = [result[j]!, result[i]!]
  }
  return result
}
