import type { Billing } from '../../core/answer/endpoint.ts'
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
  /** The most that it may do. */
  readonly limits: RunLimits
  /** Whether it works only if the other side cannot: nothing is reserved for it, nor waited for. */
  readonly isBackup: boolean
}

export interface BudgetRequest {
  readonly sides: Readonly<Partial<Record<Side, WantedSide>>>
  readonly promptTokens: number
  /** Whether the budget's share decides, so that the request counts for it. */
  readonly isAuto: boolean
}

/** What a start of a side is asked to do at most. */
export interface RunLimits {
  /** Of the prompt and the answer so far: what its side can count at most. */
  readonly promptTokens: number
  /** Undefined: any number. */
  readonly tokens: number | undefined
}

export interface RunRequest {
  /** Of the prompt and the answer so far, as counted here. */
  readonly promptTokens: number
  readonly limits: RunLimits
  /** Whether its server is paid for what it answers, whether or not that arrives, and counts it itself. */
  readonly isBilled: boolean
}

/** A start of a side that the budget allows. All that it may cost is reserved. */
export interface Run extends Billing {
  /** Tokens that it may be asked for; undefined: any number. */
  readonly maxTokens: number | undefined
  /** Adds tokens that have come. */
  arrived(tokens: number): void
  /** It has ended by itself. @param promptTokens as its server counts them; undefined: it does not tell */
  completed(promptTokens: number | undefined): void
}

/** An answer that the budget allows. */
export interface Admission {
  /** Sides of the request that may work: at least one. */
  readonly sides: readonly Side[]
  /** Why the budget has left out a side, or shortened the answer; undefined: it has not. */
  readonly exhausted?: string | undefined
  /** A side is to begin the answer, or to go on with it. @throws BrimError BUDGET_EXHAUSTED */
  start(side: Side, run: RunRequest): Run
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
  admit(request: BudgetRequest, signal: AbortSignal): Promise<Admission>
}
