import type { SketchPlan } from './sketch-plans.ts'
import { maxParallelSentences } from './sketched-sentences.ts'
import type { CloudSpeed } from './state.ts'

/** Without a bound by f(l), devices get this many times as long as predicted, before the LLM writes what is missing. */
const patience = 2
const minExpansionMs = 2_000
/** Less is not worth a job. */
const minDeadlineMs = 250
/** Time per token of several sentences that are written together, over that of one answer. */
const crowding = 1.5

/** Of a plan; null where the speed of the LLM is unknown. */
type PlannedTimes = { readonly [Time in keyof Pick<SketchPlan, 'fullS' | 'predictedS'>]: number | null } & {
  readonly withinS?: number | undefined
  /** From the end of the sketch: Δ(r) and c·f(l)/p. */
  readonly expansionS?: number | null | undefined
}

/** How long devices are given for a sketch that is written, in ms from now. */
export interface ExpansionTime {
  /** What is left of f(l), or less where answers wait for the LLM: it decides about small models and groups. */
  readonly budgetMs: number
  /** After this, the LLM writes what is missing. */
  readonly deadlineMs: number
}

/** What the LLM would write in the place of devices. */
export interface SentencesOfLlm {
  /** At its present load; undefined: not measured. */
  readonly speed: CloudSpeed | undefined
  readonly sentences: number
  /** Of all of them. */
  readonly tokens: number
}

/** Seconds in which the LLM writes sentences, several at once. */
export function completionS({ waitS, ttftS, tpotS }: CloudSpeed, { sentences, tokens }: Omit<SentencesOfLlm, 'speed'>): number {
  const rounds = Math.ceil(sentences / maxParallelSentences)
  return waitS + rounds * (ttftS + Math.max(0, tokens / Math.max(1, sentences) - 1) * crowding * tpotS)
}

/**
 * Whatever devices do, an answer that is to be faster than the LLM alone ends about when that would have: an LLM with places to spare
 * begins early enough to write what is missing by f(l), but not before devices have had the time that the plan gives them. A busy one
 * has none for that; silent devices are then replaced by others only.
 * @param elapsedMs since the answer was asked for @param maxMs of the expansion
 */
export function expansionTime(
  { fullS, predictedS, expansionS = null, withinS = Number.POSITIVE_INFINITY }: PlannedTimes,
  elapsedMs: number,
  maxMs: number,
  completion: SentencesOfLlm,
): ExpansionTime {
  const leftMs = (seconds: number | null) => Math.max(1, (seconds ?? 0) * 1_000 - elapsedMs)
  const leftOfFullMs = leftMs(fullS)
  const patientMs = patience * Math.max(minExpansionMs, leftOfFullMs, leftMs(predictedS))
  const { speed } = completion
  const isBound = fullS !== null && predictedS !== null && predictedS <= fullS && speed && hasPlaces(speed)
  const boundMs = isBound
    ? Math.max(minDeadlineMs, leftOfFullMs - 1_000 * completionS(speed, completion), 1_000 * (expansionS ?? 0))
    : patientMs
  return { budgetMs: Math.min(leftOfFullMs, 1_000 * withinS), deadlineMs: Math.min(maxMs, patientMs, boundMs) }
}

const hasPlaces = ({ waitS, slots = 1, running = 0 }: CloudSpeed): boolean => waitS === 0 && 2 * running < Math.max(2, slots)
