import type { SideCost } from '../../core/answer/figures.ts'
import type { DeviceMode } from '../../core/base/answer-modes.ts'
import type { ControllerPlan } from '../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../core/policy/disco/state.ts'
import type { Run, RunRequest } from './budget.ts'
import type { AnswerSide } from './side.ts'

/** How one answer is to be made, by which endpoints. */
export interface AnswerPlan extends ControllerPlan {
  readonly mode: DeviceMode
  readonly sides: Readonly<Partial<Record<Side, AnswerSide>>>
  /** The side whose use the budget limits; absent: only one side can answer. */
  readonly constrained?: Side | undefined
  /** Why the budget has left out a side, or shortened the answer; undefined: it has not. */
  readonly exhausted?: string | undefined
  readonly observe: AnswerObserver
  /** What a side has spent so far, for the report. */
  costOf(side: Side): SideCost
}

/** Learns from an answer, while it is being made. */
export interface AnswerObserver {
  /** Time from the start of a side to its first token. @param tokens of the prompt, and of the answer so far */
  firstToken(side: Side, ms: number, tokens: number): void
  /** The side was stopped before its first token, which would have come later than after so many ms: a censored observation. */
  canceled(side: Side, ms: number, tokens: number): void
  /** A side is to begin the answer, or to go on with it. @throws BrimError BUDGET_EXHAUSTED */
  start(side: Side, run: RunRequest): Run
  /** The answer has ended, failed, or was left. Called once. @param tokens of the answer; undefined: it has no end of its own */
  ended(tokens: number | undefined): void
}
