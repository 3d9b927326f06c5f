import type { SketchVariant } from '../../cloud-bridge/variant.ts'
import { batchByLength, type DispatchRule } from '../../core/policy/pice/dispatch-rules.ts'
import { type PlanTerms, planAnswer } from '../../core/policy/pice/plan-answer.ts'
import type { PlanPolicy } from '../../core/policy/pice/plan-policy.ts'
import { oldestFirst, planStatically } from './static-sketches.ts'

/** Dynamic scheduling is PICE's; static scheduling is what it is compared with. */
export type SketchPolicy = 'dynamic' | 'static'

/** Of static scheduling: neither the longest sketch nor the shortest. */
const staticLevel = 2

export function planPolicy(policy: SketchPolicy, terms: PlanTerms): PlanPolicy {
  if (policy === 'dynamic') return (...question) => planAnswer(...question, terms)
  return (question, view, cloud, shares) =>
    planStatically(question, view, cloud, shares, { ...terms, level: Math.min(staticLevel, shares.length) })
}

/** @param maxSketches in a batch */
export const dispatchRule = (policy: SketchPolicy, maxSketches: number): DispatchRule =>
  policy === 'static' ? inOrder(maxSketches) : batchByLength(maxSketches)

const inOrder =
  (maxSketches: number): DispatchRule =>
  (waiting, { idleDevices }) =>
    oldestFirst(waiting, Math.min(maxSketches, Math.ceil(waiting.length / idleDevices)))

/** Static scheduling, of a bridge. */
export const staticSketches: SketchVariant = {
  policy: 'static',
  plans: (terms) => planPolicy('static', terms),
  batches: (maxSketches) => dispatchRule('static', maxSketches),
}
