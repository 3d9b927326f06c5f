import type { AnswerPlan, Question } from './plan-answer.ts'
import type { CloudSpeed, FleetView } from './state.ts'

/** Which answers are sketched, and how. */
export type PlanPolicy = (question: Question, view: FleetView, cloud: CloudSpeed, sketchShares: readonly number[]) => AnswerPlan
