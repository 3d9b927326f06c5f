import { quantile } from '../../core/policy/estimate/quantile.ts'
import type { AnswerPlan, Question } from '../../core/policy/pice/plan-answer.ts'
import { type PredictionTerms, sketchPlans } from '../../core/policy/pice/sketch-plans.ts'
import { answerS } from '../../core/policy/pice/speeds.ts'
import type { CloudSpeed, FleetView, WaitingExpansion } from '../../core/policy/pice/state.ts'

/** The schedulers that PICE is compared with (PICE §V): they look at the question, never at the load. */

export interface StaticTerms extends PredictionTerms {
  /** Longer answers are sketched. */
  readonly minTokens: number
  /** Level of every sketch, from 1, the longest. */
  readonly level: number
}

/** Static scheduling: every longer answer is sketched, at a fixed level, if there is a device. */
export function planStatically(
  { expectedTokens, isSketchRequested }: Question,
  view: FleetView,
  cloud: CloudSpeed,
  sketchShares: readonly number[],
  terms: StaticTerms,
): AnswerPlan {
  const fullS = answerS(cloud, expectedTokens)
  if (expectedTokens < terms.minTokens && !isSketchRequested) return { mode: 'full', reason: 'short', fullS }
  const plans = sketchPlans(expectedTokens, view, cloud, sketchShares, terms).filter(({ level }) => level === terms.level)
  const [first, ...others] = plans
  if (!first) return { mode: 'full', reason: 'no-device', fullS }
  return others.reduce((a, b) => (b.predictedS < a.predictedS ? b : a), first)
}

/** Dispatch of static scheduling: the oldest expansions, whatever their lengths. */
export const oldestFirst = <W extends WaitingExpansion>(waiting: readonly W[], maxSketches: number): W[] =>
  [...waiting].sort((a, b) => b.waitedS - a.waitedS).slice(0, maxSketches)

/**
 * Routing between a small model on a device and the LLM by a score of the question, such as the foreseen length of its answer
 * or its predicted difficulty: the least scores go to devices.
 * @param scores of like questions, at least one
 * @param edgeShare of them to devices, 0..1
 */
export function routeByScore(scores: readonly number[], edgeShare: number): (score: number) => 'device' | 'cloud' {
  const threshold = edgeShare > 0 ? quantile(scores, edgeShare) : Number.NEGATIVE_INFINITY
  return (score) => (score <= threshold ? 'device' : 'cloud')
}
