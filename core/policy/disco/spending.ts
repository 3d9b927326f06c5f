/** What answers have cost one account in some time. */
export interface AccountSpending {
  readonly promptTokens: number
  /** Prompt tokens of answers in mode `auto`: the budget's share b is one of these. */
  readonly autoPromptTokens: number
  /** Of answers, with those that were thrown away. */
  readonly tokens: number
  readonly dollars: number
  readonly joules: number
}

export const nothingSpent: AccountSpending = { promptTokens: 0, autoPromptTokens: 0, tokens: 0, dollars: 0, joules: 0 }

export const sumOf = (a: AccountSpending, b: AccountSpending): AccountSpending => ({
  promptTokens: a.promptTokens + b.promptTokens,
  autoPromptTokens: a.autoPromptTokens + b.autoPromptTokens,
  tokens: a.tokens + b.tokens,
  dollars: a.dollars + b.dollars,
  joules: a.joules + b.joules,
})

/** Buckets of a window: it slides in steps of so many parts. */
const bucketsPerWindow = 64

/**
 * Spending by account in a sliding window, in buckets, so that its size does not depend on how much is spent. A bucket counts
 * until all of it is older than the window: spending is never forgotten early. Mutable; times are in ms, of a clock that never
 * goes back.
 */
export class SpendingWindow<Account extends string> {
  readonly #windowMs: number
  readonly #bucketMs: number
  /** By start, ascending. */
  readonly #buckets: { readonly atMs: number; readonly spent: Map<Account, AccountSpending> }[] = []

  constructor(windowMs: number) {
    this.#windowMs = windowMs
    this.#bucketMs = Math.ceil(windowMs / bucketsPerWindow)
  }

  /** Start of the bucket that holds a time. */
  bucketAt(timeMs: number): number {
    return Math.floor(timeMs / this.#bucketMs) * this.#bucketMs
  }

  /** Buckets that start then or before are forgotten. */
  forgottenAt(nowMs: number): number {
    return nowMs - this.#lifeMs
  }

  /** @param timeMs not before that of an earlier call */
  add(account: Account, spending: AccountSpending, timeMs: number): void {
    const atMs = this.bucketAt(timeMs)
    let bucket = this.#buckets.at(-1)
    if (bucket?.atMs !== atMs) {
      bucket = { atMs, spent: new Map() }
      this.#buckets.push(bucket)
    }
    bucket.spent.set(account, sumOf(bucket.spent.get(account) ?? nothingSpent, spending))
  }

  total(account: Account, nowMs: number): AccountSpending {
    this.#forget(nowMs)
    return this.#buckets.reduce((sum, { spent }) => sumOf(sum, spent.get(account) ?? nothingSpent), nothingSpent)
  }

  /** Time until the window's total of a figure is at most `max`; 0: it is now. @param max ≥ 0 */
  msUntil(account: Account, figure: keyof AccountSpending, max: number, nowMs: number): number {
    let left = this.total(account, nowMs)[figure]
    let atMs = nowMs
    for (const bucket of this.#buckets) {
      if (left <= max) break
      left -= bucket.spent.get(account)?.[figure] ?? 0
      atMs = bucket.atMs + this.#lifeMs
    }
    return atMs - nowMs
  }

  get #lifeMs(): number {
    return this.#bucketMs + this.#windowMs
  }

  #forget(nowMs: number): void {
    const firstKept = this.#buckets.findIndex(({ atMs }) => atMs > this.forgottenAt(nowMs))
    this.#buckets.splice(0, firstKept === -1 ? this.#buckets.length : firstKept)
  }
}

/** The time by which spending is forgotten, and what it was counted by. */
export interface SpendingTime {
  readonly ms: number
  /** The latest time of day by then; undefined: the device's clock has never been set. */
  readonly wallMs: number | undefined
  /** Start of the machine that `upMs` belongs to, and the time since then. */
  readonly boot: string
  readonly upMs: number
  /** Whether the time for which the machine was off before this start has been counted. */
  readonly isOffCounted: boolean
}

/** What the device's clocks show: the time of day, undefined while it is not set; and the time since its start, sleep included. */
export type SpendingClocks = Pick<SpendingTime, 'wallMs' | 'boot' | 'upMs'>

/**
 * Time passes while the machine is up, whatever its time of day says. The time for which it was off is known by the time of day alone.
 * That counts once for each start of the machine, and only beyond the latest time before. So a clock that is set ahead, even step by
 * step, frees no budget, and a start with a wrong clock frees it at most once.
 */
export function laterTime(then: SpendingTime, { wallMs, boot, upMs }: SpendingClocks): SpendingTime {
  const isSameBoot = then.boot === boot
  const elapsedMs = isSameBoot ? Math.max(0, upMs - then.upMs) : 0
  const expectedMs = then.wallMs === undefined ? wallMs : then.wallMs + elapsedMs
  const isOffCounted = isSameBoot && then.isOffCounted
  const offMs = isOffCounted || wallMs === undefined ? 0 : Math.max(0, wallMs - expectedMs!)
  return {
    ms: then.ms + elapsedMs + offMs,
    wallMs: expectedMs === undefined ? undefined : expectedMs + offMs,
    boot,
    upMs,
    isOffCounted: isOffCounted || wallMs !== undefined,
  }
}
