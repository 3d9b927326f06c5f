import type { Billing } from '../../core/answer/endpoint/endpoint.ts'
import type { SideCost } from '../../core/answer/endpoint/figures.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import type { RunAccount, RunRequest, WantedSide } from '../../core/policy/disco/side-account.ts'
import type { Spender } from '../../core/policy/disco/spending-book.ts'
import type { Side, TokenCosts } from '../../core/policy/disco/state.ts'

export interface BudgetRequest {
  readonly sides: Readonly<Partial<Record<Side, WantedSide>>>
  readonly promptTokens: number
  /** Whether the budget's share decides, so that the request counts for it. */
  readonly isAuto: boolean
}

/** A start of a side that the budget allows. */
export interface BudgetedRun extends Billing, RunAccount {}

/** An answer that the budget allows. */
export interface BudgetAdmission {
  /** Sides of the request that may work: at least one. */
  readonly sides: readonly Side[]
  /** Why the budget has left out a side, or shortened the answer; undefined: it has not. */
  readonly exhausted?: string | undefined
  /** A side is to begin the answer, or to go on with it. @throws BrimError BUDGET_EXHAUSTED */
  start(side: Side, run: RunRequest): BudgetedRun
  /** What a side has spent so far, for the report; nothing where it was not admitted. */
  costOf(side: Side): SideCost
  /** The answer has ended: what was reserved and cannot have been spent is free again. */
  end(): void
}

/** What answers may cost, and have cost. */
export interface Budget {
  /** Of a token now; undefined where price or energy is unknown. */
  costs(spender: Spender): TokenCosts | undefined
  /** An answer that no budget limits, and nothing was reserved for, has cost this. */
  count(spender: Spender, work: SideWork): void
  /**
   * Leaves out sides whose budget is exhausted, or waits, or refuses, as configured.
   * @throws BrimError BUDGET_EXHAUSTED; the signal's reason
   */
  admit(request: BudgetRequest, signal: AbortSignal): Promise<BudgetAdmission>
}
