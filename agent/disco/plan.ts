import type { SideCost, WayFigures } from '../../core/answer/endpoint/figures.ts'
import type { DeviceMode } from '../../core/kit/base/answer-modes.ts'
import type { AnswerController } from '../../core/policy/disco/answer-controller.ts'
import type { DispatchPlan } from '../../core/policy/disco/answer-dispatcher.ts'
import type { ControllerAction, ControllerInput } from '../../core/policy/disco/controller-plan.ts'
import type { NumberedPiece } from '../../core/policy/disco/dispatch-machine.ts'
import type { RunRequest } from '../../core/policy/disco/side-account.ts'
import type { Side } from '../../core/policy/disco/state.ts'
import type { BudgetedRun } from './budget.ts'
import type { AnswerSide } from './side.ts'

/** How one answer is to be made, by which endpoints. */
export interface EndpointPlan extends DispatchPlan {
  readonly mode: DeviceMode
  readonly sides: Readonly<Partial<Record<Side, AnswerSide>>>
  /** Of the answer, as it is. */
  readonly controller: AnswerController<NumberedPiece>
  /** Why the budget has left out a side, or shortened the answer; undefined: it has not. */
  readonly exhausted?: string | undefined
  /** What each way was expected to take, where the request asks for it. */
  readonly ways?: readonly WayFigures[]
  /** Something has happened to the answer. */
  handle(input: ControllerInput<NumberedPiece>, nowMs: number): readonly ControllerAction<NumberedPiece>[]
  /** A side is to begin the answer, or to go on with it. @throws BrimError BUDGET_EXHAUSTED */
  start(side: Side, run: RunRequest): BudgetedRun
  /** What a side has spent so far, for the report. */
  costOf(side: Side): SideCost
}
