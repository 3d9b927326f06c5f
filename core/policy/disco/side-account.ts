import type { SideWork } from './controller-plan.ts'
import { type AccountSpending, nothingSpent, sumOf } from './spending.ts'
import type { Spender } from './spending-book.ts'

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

/** What a start of a side is asked to do at most. */
export interface RunLimits {
  /** Of the prompt and the answer so far: what its side can count at most. */
  readonly promptTokens: number
  /** Undefined: any number. */
  readonly tokens?: number | undefined
}

export interface RunRequest {
  /** Of the prompt and the answer so far, as counted here. */
  readonly promptTokens: number
  readonly limits: RunLimits
  /** Whether its server is paid for what it answers, whether or not that arrives, and counts it itself. */
  readonly isBilled: boolean
}

/** A start of a side. All that it may cost is reserved. */
export interface RunAccount {
  /** Tokens that it may be asked for; undefined: any number. */
  readonly maxTokens: number | undefined
  sent(): void
  refused(): void
  /** Adds tokens that have come. */
  arrived(tokens: number): void
  /** It has ended by itself. @param promptTokens as its server counts them; undefined: it does not tell */
  completed(promptTokens: number | undefined): void
  /** It was stopped before, or may have been. @param promptTokens and `tokens` that its server has processed by then, at most; undefined: unknown */
  left(promptTokens: number | undefined, tokens: number | undefined): void
}

/** Expected spending of an answer in progress. */
interface Reservation {
  readonly spending: AccountSpending
  /** The answer costs more than was expected. */
  raise(spending: AccountSpending): void
  /** Replaces it by what was spent. */
  settle(spent: AccountSpending): void
}

/** What of one side's answers counts towards a budget; prices are those of the answer's start. */
export interface SideRates {
  readonly spender: Spender
  spendingOf(work: SideWork, isStart: boolean): AccountSpending
  /** Tokens that the budget allows after a prompt, beside what has been spent, is reserved by others, and is committed here. */
  affordable(promptTokens: number, committed: AccountSpending): number
  /** Whether a budget limits the side. */
  readonly isCapped: boolean
}

/** Tokens of an answer that states no limit, where a budget must hold: models' own limits are rarely lower. */
export const defaultMaxTokens = 4_096

interface RunCost {
  /** What has come, for the report. */
  spent(): AccountSpending
  /** What may have to be paid if the run ended now. */
  due(): AccountSpending
  /** What may have to be paid in all. */
  readonly most: AccountSpending
}

/**
 * What one side spends on one answer, start by start. Everything that a start may cost is reserved before it: the longest prompt that
 * its server can count and the most tokens that it is asked for. What it has not cost is free again when the answer ends.
 */
export class SideAccount {
  readonly rates: SideRates
  readonly #reservation: Reservation
  readonly #runs: RunCost[] = []

  constructor(rates: SideRates, reservation: Reservation) {
    this.rates = rates
    this.#reservation = reservation
  }

  /** What has come so far. */
  get spent(): AccountSpending {
    return this.#runs.reduce((sum, run) => sumOf(sum, run.spent()), nothingSpent)
  }

  get reserved(): AccountSpending {
    return this.#reservation.spending
  }

  /** @param isStart whether the answer has no token yet @returns undefined: the budget does not allow a token */
  start({ promptTokens, limits, isBilled }: RunRequest, isStart: boolean): RunAccount | undefined {
    const { rates } = this
    const committed = this.#runs.reduce((sum, { most }) => sumOf(sum, most), nothingSpent)
    const asked = limits.tokens ?? (rates.isCapped ? defaultMaxTokens : undefined)
    const maxTokens = asked === undefined ? undefined : Math.min(asked, rates.affordable(limits.promptTokens, committed))
    if (maxTokens !== undefined && maxTokens < 1) return undefined
    const costOf = (prompt: number, tokens: number) => rates.spendingOf({ promptTokens: prompt, tokens }, isStart)
    const most = costOf(limits.promptTokens, maxTokens ?? 0)
    let arrived = 0
    let counted: number | undefined
    let state: 'waiting' | 'sent' | 'refused' | 'left' | 'ended' = 'waiting'
    const came = () => {
      if (isBilled && (state === 'waiting' || state === 'refused')) return nothingSpent
      const spent = costOf(counted ?? promptTokens, arrived)
      return rates.isCapped ? atMost(spent, most) : spent
    }
    this.#runs.push({
      spent: came,
      // A server that has the request may write all of it, and count more than it sends.
      due: () =>
        isBilled && rates.isCapped && (state === 'sent' || (state === 'ended' && counted === undefined)) ? most : came(),
      most,
    })
    const reserved = sumOf(committed, most)
    if (rates.isCapped && !isSame(reserved, this.#reservation.spending)) this.#reservation.raise(reserved)
    return {
      maxTokens,
      sent() {
        state = 'sent'
      },
      refused() {
        state = 'refused'
      },
      arrived(tokens) {
        arrived += tokens
      },
      completed(prompt) {
        counted = prompt
        state = 'ended'
      },
      left(prompt, tokens) {
        if (state !== 'sent') return
        counted = prompt ?? (rates.isCapped ? limits.promptTokens : undefined)
        const possible = Math.min(tokens ?? Number.POSITIVE_INFINITY, maxTokens ?? Number.POSITIVE_INFINITY)
        if (possible < Number.POSITIVE_INFINITY) arrived = Math.max(arrived, possible)
        state = 'left'
      },
    }
  }

  settle(): void {
    this.#reservation.settle(this.#runs.reduce((sum, run) => sumOf(sum, run.due()), nothingSpent))
  }
}

/** Each change of a reservation waits for the disk. */
const isSame = (a: AccountSpending, b: AccountSpending): boolean =>
  a.dollars === b.dollars && a.joules === b.joules && a.tokens === b.tokens && a.promptTokens === b.promptTokens

/** A server that claims more than it was asked for is not believed. */
const atMost = (spent: AccountSpending, most: AccountSpending): AccountSpending => ({
  promptTokens: Math.min(spent.promptTokens, most.promptTokens),
  autoPromptTokens: Math.min(spent.autoPromptTokens, most.autoPromptTokens),
  tokens: Math.min(spent.tokens, most.tokens),
  dollars: Math.min(spent.dollars, most.dollars),
  joules: Math.min(spent.joules, most.joules),
})
