import type { SideCost } from '../../core/answer/figures.ts'
import type { DeviceMode } from '../../core/base/answer-modes.ts'
import type { DispatchPlan } from '../../core/policy/disco/dispatcher.ts'
import type { Side } from '../../core/policy/disco/state.ts'
import type { Run, RunRequest } from './budget.ts'
import type { AnswerSide } from './side.ts'

/** How one answer is to be made, by which endpoints. */
export interface AnswerPlan extends DispatchPlan {
  readonly mode: DeviceMode
  readonly sides: Readonly<Partial<Record<Side, AnswerSide>>>
  /** Why the budget has left out a side, or shortened the answer; undefined: it has not. */
  readonly exhausted?: string | undefined
  /** A side is to begin the answer, or to go on with it. @throws BrimError BUDGET_EXHAUSTED */
  start(side: Side, run: RunRequest): Run
  /** What a side has spent so far, for the report. */
  costOf(side: Side): SideCost
}
