/** η of HAT Eq. 5. */
export const defaultDraftThreshold = 0.6

export interface DraftLimits {
  /** η, 0..1: below this top probability of the draft model a draft ends. */
  readonly threshold: number
  /** Most tokens per draft, >= 0. */
  readonly limit: number
}

/**
 * Whether a draft ends with the token that was just drafted: its probability fell under η (HAT Eq. 5; the token is
 * still sent, it costs one row) or the draft is as long as it may be.
 * @param topProbability of the draft model at the token just drafted, 0..1
 * @param drafted tokens, that one included, >= 1
 */
export function draftEnds(topProbability: number, drafted: number, { threshold, limit }: DraftLimits): boolean {
  return topProbability < threshold || drafted >= limit
}

/**
 * How many tokens a round may draft: with the token that verification adds, a round never passes the end of the answer,
 * and its rows (the pending token's and one per drafted token) never the end of the context.
 * @param limit most tokens per draft, >= 0
 * @param remaining tokens of the answer still wanted, >= 1
 * @param position of the pending token, from 0
 * @param contextLimit positions that the model has
 * @returns 0..limit
 */
export function draftRoom(limit: number, remaining: number, position: number, contextLimit: number): number {
  return Math.max(0, Math.min(limit, remaining - 1, contextLimit - 1 - position))
}
