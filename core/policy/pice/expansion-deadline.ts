import type { SketchPlan } from './sketch-plans.ts'

/** Devices get this many times as long as predicted, before the LLM writes what is missing. */
const patience = 2
const minExpansionMs = 2_000

/** Of a plan; null where the speed of the LLM is unknown. */
type PlannedTimes = { readonly [Time in keyof Pick<SketchPlan, 'fullS' | 'predictedS'>]: number | null } & {
  readonly withinS?: number | undefined
}

/** How long devices are given for a sketch that is written, in ms from now. */
export interface ExpansionTime {
  /** What is left of f(l), or less where answers wait for the LLM: it decides about small models and groups. */
  readonly budgetMs: number
  /** After this, the LLM writes what is missing. */
  readonly deadlineMs: number
}

/** @param elapsedMs since the answer was asked for @param maxMs of the expansion */
export function expansionTime(
  { fullS, predictedS, withinS = Number.POSITIVE_INFINITY }: PlannedTimes,
  elapsedMs: number,
  maxMs: number,
): ExpansionTime {
  const leftMs = (seconds: number | null) => Math.max(1, (seconds ?? 0) * 1_000 - elapsedMs)
  const leftOfFullMs = leftMs(fullS)
  const deadlineMs = patience * Math.max(minExpansionMs, leftOfFullMs, leftMs(predictedS))
  return { budgetMs: Math.min(leftOfFullMs, 1_000 * withinS), deadlineMs: Math.min(maxMs, deadlineMs) }
}
