import { type AccountSpending, nothingSpent, SpendingWindow, sumOf } from './spending.ts'

/** What makes tokens of answers: the small model, HAT, or the server of `--server`. */
export const spenders = ['slm', 'hat', 'server'] as const
export type Spender = (typeof spenders)[number]

/** What tokens are counted for: what made them, and the requests (prompt tokens only). */
export type Account = Spender | 'requests'

/** What is written down. */
export type BookChange =
  | { readonly kind: 'add'; readonly account: Account; readonly spending: AccountSpending }
  /** An answer in progress is expected to cost this. */
  | { readonly kind: 'reserve'; readonly id: number; readonly account: Account; readonly spending: AccountSpending }
  /** It costs more than was expected. */
  | { readonly kind: 'raise'; readonly id: number; readonly account: Account; readonly spending: AccountSpending }
  /** What it has cost takes the place of the reservation. */
  | { readonly kind: 'settle'; readonly id: number; readonly account: Account; readonly spending: AccountSpending }

/** Spending in a bucket of the window. */
export interface SpentRow {
  readonly atMs: number
  readonly account: Account
  readonly spending: AccountSpending
}

/** What was spent in a sliding window, and is reserved by answers in progress. Mutable; times as of `SpendingWindow`. */
export class SpendingBook {
  readonly window: SpendingWindow<Account>
  readonly #reserved = new Map<number, { readonly account: Account; readonly spending: AccountSpending }>()

  /** @param spent before, ascending by time */
  constructor(windowMs: number, spent: Iterable<SpentRow> = []) {
    this.window = new SpendingWindow(windowMs)
    for (const { account, spending, atMs } of spent) this.window.add(account, spending, atMs)
  }

  /** In the window, reservations not counted. */
  spent(account: Account, nowMs: number): AccountSpending {
    return this.window.total(account, nowMs)
  }

  /** By answers in progress. */
  reserved(account: Account): AccountSpending {
    let sum = nothingSpent
    for (const each of this.#reserved.values()) if (each.account === account) sum = sumOf(sum, each.spending)
    return sum
  }

  /** Time until at most `max` of a figure has been spent in the window, if nothing else is. @param max ≥ 0 */
  msUntil(account: Account, figure: keyof AccountSpending, max: number, nowMs: number): number {
    return this.window.msUntil(account, figure, max, nowMs)
  }

  /** @returns false: its reservation is settled already */
  change(change: BookChange, nowMs: number): boolean {
    const { kind, account, spending } = change
    if (kind === 'reserve' || kind === 'raise') this.#reserved.set(change.id, { account, spending })
    else {
      if (kind === 'settle' && !this.#reserved.delete(change.id)) return false
      this.window.add(account, spending, nowMs)
    }
    return true
  }
}
