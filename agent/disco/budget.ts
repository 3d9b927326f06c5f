import type { SideCost } from '../../core/answer/figures.ts'
import type { SideWork } from '../../core/policy/disco/controller-plan.ts'
import type { Side, TokenCosts } from '../../core/policy/disco/state.ts'

/** What makes tokens of answers: the small model, HAT, or the server of `--server`. */
export const spenders = ['slm', 'hat', 'server'] as const
export type Spender = (typeof spenders)[number]

/** A side that an answer is to use. */
export interface WantedSide {
  readonly spender: Spender
  /** What it is expected to do. */
  readonly estimate: SideWork
  /** Whether it works only if the other side cannot: nothing is reserved for it, nor waited for. */
  readonly isBackup: boolean
}

export interface BudgetRequest {
  readonly sides: Readonly<Partial<Record<Side, WantedSide>>>
  readonly promptTokens: number
  /** Whether the budget's share decides, so that the request counts for it. */
  readonly isAuto: boolean
}

/** An answer that the budget allows. */
export interface Admission {
  /** Sides of the request that may work: at least one. */
  readonly sides: readonly Side[]
  /** Why the budget has left out a side; undefined: it has not. */
  readonly exhausted?: string | undefined
  /** Adds what a side has done since the last call. */
  spent(side: Side, work: SideWork): void
  /** What a side has spent so far, for the report; nothing where it was not admitted. */
  costOf(side: Side): SideCost
  /** The answer has ended: what was reserved and not spent is free again. */
  end(): void
}

/** What answers may cost, and have cost. */
export interface Budget {
  /** Of a token now; undefined where price or energy is unknown. */
  costs(spender: Spender): TokenCosts | undefined
  /**
   * Leaves out sides whose budget is exhausted, or waits, or refuses, as configured.
   * @throws BrimError BUDGET_EXHAUSTED; the signal's reason
   */
  admit(request: BudgetRequest, signal: AbortSignal): Promise<Admission>
}
