import type { ReaderState } from './policy.ts'

/** Tokens per second of a person who reads (DiSCo: 4 to 5), and the reference rate of a consumer that names none. */
export const readingTokensPerS = 5

/**
 * A reader's position in an answer (TokenFlow §3.2). Reading begins with the first token and takes 1/rate seconds per token;
 * an empty buffer before the last token is a stall. Mutable; the time is passed in and never goes back.
 */
export class Reader implements ReaderState {
  readonly requestedMs: number
  readonly maxTokens: number
  tokensPerS: number
  firstTokenMs: number | undefined
  drainedMs: number | undefined
  sent = 0
  /** Stalls that a later token has ended: how many, and their sum. What follows the last token is no stall. */
  stalls = 0
  stalledMs = 0

  /**
   * @param tokensPerS finite, > 0
   * @param maxTokens of the answer
   * @throws RangeError for another rate
   */
  constructor(tokensPerS: number, maxTokens: number, requestedMs: number) {
    demandRate(tokensPerS)
    this.tokensPerS = tokensPerS
    this.maxTokens = maxTokens
    this.requestedMs = requestedMs
  }

  /** `count` more tokens have been sent, >= 1. */
  deliver(count: number, nowMs: number): void {
    this.firstTokenMs ??= nowMs
    const { drainedMs = nowMs } = this
    if (drainedMs < nowMs) {
      this.stalls += 1
      this.stalledMs += nowMs - drainedMs
    }
    this.drainedMs = Math.max(drainedMs, nowMs) + (count * 1_000) / this.tokensPerS
    this.sent += count
  }

  /** The consumer reports how many tokens it has not read, >= 0, after at least one more. */
  report(unread: number, nowMs: number): void {
    this.firstTokenMs ??= nowMs
    this.drainedMs = nowMs + (unread * 1_000) / this.tokensPerS
    this.sent += 1
  }

  /** From now on the reader takes tokens at another rate. @throws RangeError as the constructor */
  setRate(tokensPerS: number, nowMs: number): void {
    demandRate(tokensPerS)
    const unread = unreadOf(this, nowMs)
    // A reader that already waits has waited since then, whatever its rate.
    if (unread > 0) this.drainedMs = nowMs + (unread * 1_000) / tokensPerS
    this.tokensPerS = tokensPerS
  }
}

/** Tokens that have been sent and not yet read; fractions count. TokenFlow's b_rem. */
export function unreadOf({ tokensPerS, drainedMs }: ReaderState, nowMs: number): number {
  return drainedMs === undefined ? 0 : (Math.max(0, drainedMs - nowMs) * tokensPerS) / 1_000
}

function demandRate(tokensPerS: number): void {
  if (!(tokensPerS > 0 && tokensPerS < Number.POSITIVE_INFINITY))
    throw new RangeError(`a reader's rate must be a positive number of tokens per second, not ${tokensPerS}`)
}
