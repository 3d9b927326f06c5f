import { planStatically } from '../../core/policy/pice/baselines.ts'
import { parseObjectives } from '../../core/policy/pice/objectives-text.ts'
import { defaultPlanTerms, planAnswer } from '../../core/policy/pice/plan-answer.ts'
import type { BridgeConfig } from '../config.ts'
import type { PlanPolicy } from './planner.ts'

/** Of static scheduling: neither the longest sketch nor the shortest. */
const staticLevel = 2

/** Which answers are sketched. */
export function planPolicy({
  sketchPolicy,
  sketchCandidates: candidates,
  sketchObjectives,
  limits,
}: Pick<BridgeConfig, 'sketchPolicy' | 'sketchCandidates' | 'sketchObjectives' | 'limits'>): PlanPolicy {
  const objectives = parseObjectives(sketchObjectives) ?? defaultPlanTerms.objectives
  const maxWaitingPerDevice = limits.waitingExpansionsPerDevice
  const terms = { ...defaultPlanTerms, candidates, maxWaitingPerDevice, objectives }
  if (sketchPolicy === 'dynamic') return (...question) => planAnswer(...question, terms)
  return (question, view, cloud, shares) =>
    planStatically(question, view, cloud, shares, { ...terms, level: Math.min(staticLevel, shares.length) })
}
