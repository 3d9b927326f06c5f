import { planStatically } from './baselines.ts'
import { type AnswerPlan, type PlanTerms, planAnswer, type Question } from './plan-answer.ts'
import type { CloudSpeed, FleetView } from './state.ts'

/** Dynamic scheduling is PICE's; static scheduling is what it is compared with. */
export type SketchPolicy = 'dynamic' | 'static'

/** Which answers are sketched, and how. */
export type PlanPolicy = (question: Question, view: FleetView, cloud: CloudSpeed, sketchShares: readonly number[]) => AnswerPlan

/** Of static scheduling: neither the longest sketch nor the shortest. */
const staticLevel = 2

export function planPolicy(policy: SketchPolicy, terms: PlanTerms): PlanPolicy {
  if (policy === 'dynamic') return (...question) => planAnswer(...question, terms)
  return (question, view, cloud, shares) =>
    planStatically(question, view, cloud, shares, { ...terms, level: Math.min(staticLevel, shares.length) })
}
