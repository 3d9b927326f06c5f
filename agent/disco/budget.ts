import type { SideCost } from '../../core/answer/figures.ts'
import type { Side, TokenCosts } from '../../core/policy/disco/state.ts'

/** What makes tokens of answers: the small model, HAT, or the server of `--server`. */
export const spenders = ['slm', 'hat', 'server'] as const
export type Spender = (typeof spenders)[number]

/** Tokens that a model has processed. */
export interface TokenWork {
  readonly promptTokens: number
  /** Of the answer, with those that were thrown away. */
  readonly tokens: number
}

/** A side that an answer is to use. */
export interface WantedSide {
  readonly spender: Spender
  /** What it is expected to do; reserved until the answer ends. Absent: it works only if the other side fails. */
  readonly estimate?: TokenWork
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
  /** Adds what a side has done since the last call. */
  spent(side: Side, work: TokenWork): void
  /** What a side has spent so far, for the report. */
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
