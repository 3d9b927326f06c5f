import type { Random } from '../../../core/kit/base/random.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { paperPrompts } from '../../simulate/paper/hat/published.ts'
import { shuffled } from '../shuffled.ts'

export const workloadNames = ['short', 'long'] as const
export type WorkloadName = (typeof workloadNames)[number]

/** Shorter prompts hold no question; longer ones leave too little of the demonstration model's context for an answer. */
export const lengthLimits = { min: 24, max: 1_900 }

export interface HatPrompt {
  readonly id: string
  readonly ids: readonly number[]
}

/**
 * Lengths of `count` prompts: equally spaced quantiles of a log-normal distribution with this mean and deviation, cut to
 * the limits. Quantiles give a few prompts the shape of the distribution.
 */
export function lengthsOf({ mean, deviation }: { mean: number; deviation: number }, count: number): number[] {
  const variance = Math.log(1 + (deviation / mean) ** 2)
  const mu = Math.log(mean) - variance / 2
  return Array.from({ length: count }, (_, i) => {
    const length = Math.round(Math.exp(mu + Math.sqrt(variance) * normalQuantile((i + 0.5) / count)))
    return Math.min(lengthLimits.max, Math.max(lengthLimits.min, length))
  })
}

/** Inverse of the standard normal distribution for 0 < p < 1, by bisection; its integral by Simpson's rule. */
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
 * A prompt of exactly `length` tokens: the question of a dialogue after as many other dialogues as needed, cut at the front.
 * @param at index of the question; the dialogues before it follow from it
 * @param eos token that ends each answer before the question
 */
export function promptOfLength(dialogues: readonly FilePrompt[], at: number, length: number, eos: number | undefined): HatPrompt {
  // The first question that fits is not cut.
  const order = Array.from({ length: dialogues.length }, (_, i) => dialogues[(at + i) % dialogues.length]!)
  const question = order.find(({ ids }) => ids.length <= length) ?? order[0]!
  let ids = [...question.ids]
  for (let i = 1; ids.length < length; i++) {
    const { ids: asked, answerIds = [] } = dialogues[(at + i) % dialogues.length]!
    ids = [...asked, ...answerIds, ...(eos === undefined ? [] : [eos]), ...ids]
  }
  return { id: `${question.id}@${length}`, ids: ids.slice(-length) }
}

export const promptsOf = (
  dialogues: readonly FilePrompt[],
  count: number,
  length: number,
  eos: number | undefined,
): HatPrompt[] => Array.from({ length: count }, (_, i) => promptOfLength(dialogues, 11 * i + 3, length, eos))

/** The prompts of a workload, with lengths in random order. */
export function workloadOf(
  dialogues: readonly FilePrompt[],
  name: WorkloadName,
  count: number,
  eos: number | undefined,
  random: Random,
): HatPrompt[] {
  const lengths = shuffled(lengthsOf(paperPrompts[name], count), random)
  const from = Math.floor(random.next() * dialogues.length)
  return lengths.map((length, i) => promptOfLength(dialogues, (from + 7 * i) % dialogues.length, length, eos))
}

export interface Arrival {
  readonly atMs: number
  readonly device: number
  readonly prompt: number
}

/** Requests of a Poisson process. Devices and prompts come in shuffled rounds, so each is used equally often. */
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
