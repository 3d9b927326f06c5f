import type { SketchPlan } from './sketch-plans.ts'

/** Devices get this many times as long as predicted, before the LLM writes what is missing. */
const patience = 2
const minExpansionMs = 2_000

/** How long devices are given for a sketch that is written, in ms from now. */
export interface ExpansionTime {
  /** What is left of f(l): an expansion within it is no later than the LLM's own answer. */
  readonly budgetMs: number
  /** After this, the LLM writes what is missing. */
  readonly deadlineMs: number
}

/** @param elapsedMs since the answer was asked for @param maxMs of the expansion */
export function expansionTime(
  { fullS, predictedS }: { readonly [Time in keyof Pick<SketchPlan, 'fullS' | 'predictedS'>]: number | null },
  elapsedMs: number,
  maxMs: number,
): ExpansionTime {
  const leftMs = (seconds: number | null) => Math.max(1, (seconds ?? 0) * 1_000 - elapsedMs)
  const budgetMs = leftMs(fullS)
  return { budgetMs, deadlineMs: Math.min(maxMs, patience * Math.max(minExpansionMs, budgetMs, leftMs(predictedS))) }
}
