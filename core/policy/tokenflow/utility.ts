import { effectiveWeight } from './quality.ts'

/** A request as its utility sees it. */
export interface Request {
  /** Tokens sent and not yet read. */
  readonly unread: number
  /** r: tokens per second that the reader takes. */
  readonly tokensPerS: number
  /** Seconds for which its reader has waited for a token, the first included; 0 while tokens are unread. */
  readonly waitedS: number
  readonly hasBegun: boolean
  /** L of effective throughput's weights. */
  readonly answerTokens: number
  /** Tokens that the answer still lacks. */
  readonly missingTokens: number
  /** Tokens per second that it generates, if it is chosen. */
  readonly speed: number
  /** t_overhead: seconds until it generates, if it is chosen. */
  readonly overheadS: number
}

/** The interval for which requests are chosen. */
export interface Interval {
  /** Δt. */
  readonly seconds: number
  /** τ_swap: seconds that preempting and resuming a request takes, the wait for the next choice included. */
  readonly swapS: number
  /** γ: weighted tokens that an empty buffer, or a second of stalling, costs. */
  readonly stallWeight: number
}

/**
 * What choosing a request for the next interval is worth, in weighted tokens (TokenFlow Eq. 3, §4.2.2): v·t' + γ·(φ if left
 * out − φ if chosen). φ is e^−x of the predicted buffer in swaps, x = b̂/(r·τ_swap), plus the seconds of stalling: e^−b of
 * tokens, as printed, vanishes within five tokens, while an interval drains more. Seconds already waited count as stalling
 * too, so that a request that is left out comes first sooner or later.
 */
export function utilityOf(request: Request, interval: Interval): number {
  const { unread, tokensPerS: rate, waitedS, hasBegun, answerTokens, missingTokens, speed, overheadS } = request
  const { seconds, swapS, stallWeight } = interval
  const tokens = Math.min(missingTokens, speed * Math.max(0, seconds - overheadS))
  // Before the first token nothing drains, but all of the time counts as waiting.
  const drained = hasBegun ? rate * seconds : rate * Math.max(0, seconds - overheadS)
  const leftOut = hasBegun ? unread - rate * seconds : 0
  const chosen = unread + tokens - drained
  const stallOutS = hasBegun ? Math.max(0, -leftOut / rate) : seconds
  const stallInS = Math.max(Math.min(overheadS, seconds) - unread / rate, -chosen / rate, 0)
  const weight = effectiveWeight((unread + Math.max(0, chosen)) / 2, answerTokens)
  const penaltyOut = penaltyOf(leftOut / rate / swapS) + stallOutS
  const penaltyIn = penaltyOf(chosen / rate / swapS) + stallInS
  return tokens * weight + stallWeight * (penaltyOut - penaltyIn + waitedS)
}

const penaltyOf = (swaps: number) => (swaps > 0 ? Math.exp(-swaps) : 1)
