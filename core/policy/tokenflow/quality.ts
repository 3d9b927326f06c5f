import { Reader, unreadOf } from '../serving/reader.ts'

/** What a token is worth, by the unread tokens that it joins (TokenFlow Eq. 1). */
export interface TokenWeighting {
  /** τ: unread tokens up to which a further one counts fully. */
  readonly threshold: number
  /** α: what each unread token above takes off, > 0. */
  readonly decay: number
}

/** One answer as its reader received it. */
export interface AnswerTimeline {
  /** Tokens per second that the reader takes, > 0. */
  readonly tokensPerS: number
  readonly requestedMs: number
  /** When each token arrived, in order. */
  readonly sentMs: readonly number[]
}

/** How an answer was to read. */
export interface ReadingExperience {
  readonly tokens: number
  readonly weightedTokens: number
  /** Undefined where no token arrived. */
  readonly ttftMs: number | undefined
  readonly stalls: number
  /** Rebuffer of TokenFlow Eq. 2: how long the reader faced an empty buffer after the first token and before the last. */
  readonly stalledMs: number
}

/** TokenFlow Eq. 1. @param unread tokens that the reader has yet to read when this one is generated, itself not counted */
export function tokenWeight(unread: number, { threshold, decay }: TokenWeighting): number {
  return Math.max(0, Math.min(1, 1 - decay * (unread - threshold)))
}

/** The weights of effective throughput (TokenFlow §7.1.3): full below 10 % of the answer's length, nothing above 20 %. */
export function effectiveWeighting(answerTokens: number): TokenWeighting {
  return { threshold: 0.1 * answerTokens, decay: 10 / answerTokens }
}

/** tokenWeight with the weights of effective throughput, which the scheduler computes for every request. */
export function effectiveWeight(unread: number, answerTokens: number): number {
  return Math.max(0, Math.min(1, 2 - (10 * unread) / answerTokens))
}

/** Follows the reader through an answer. @param weighting by default that of effective throughput */
export function readingExperience(answer: AnswerTimeline, weighting?: TokenWeighting): ReadingExperience {
  const { tokensPerS, requestedMs, sentMs } = answer
  const reader = new Reader(tokensPerS, sentMs.length, requestedMs)
  const weights = weighting ?? effectiveWeighting(sentMs.length)
  let weightedTokens = 0
  for (const atMs of sentMs) {
    weightedTokens += tokenWeight(unreadOf(reader, atMs), weights)
    reader.deliver(1, atMs)
  }
  const { firstTokenMs, stalls, stalledMs, sent } = reader
  const ttftMs = firstTokenMs === undefined ? undefined : firstTokenMs - requestedMs
  return { tokens: sent, weightedTokens, ttftMs, stalls, stalledMs }
}

/** λ and μ of TokenFlow Eq. 2, which the paper does not publish: weighted tokens per second of waiting. */
export const qosPenalties = { ttftPerS: 1, stallPerS: 1 }

/**
 * TokenFlow Eq. 2, in weighted tokens per second.
 * @param durationS T, of the whole run, > 0
 * @param penalties λ and μ: weighted tokens that a second before the first token, or of stalling, costs
 */
export function qualityOfService(
  answers: readonly ReadingExperience[],
  durationS: number,
  penalties: { readonly ttftPerS: number; readonly stallPerS: number },
): number {
  let sum = 0
  for (const { weightedTokens, ttftMs = durationS * 1_000, stalledMs } of answers)
    sum += weightedTokens - (penalties.ttftPerS * ttftMs + penalties.stallPerS * stalledMs) / 1_000
  return sum / durationS
}
