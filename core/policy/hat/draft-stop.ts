import { type DraftPace, draftPays } from './draft-pace.ts'

/** η of HAT Eq. 5. */
export const defaultDraftThreshold = 0.6
/** Max tokens of a draft that a bridge allows. */
export const defaultDraftLimit = 8

export interface DraftLimits {
  /** η, 0..1: a draft ends when the draft model's top probability falls below it. */
  readonly threshold: number
  /** Maximum tokens per draft, >= 0. */
  readonly limit: number
  /** Where it is known, it decides in place of the threshold. */
  readonly pace?: DraftPace | undefined
}

/**
 * Whether a draft ends with the token just drafted: its probability fell below η (HAT Eq. 5), or by the pace another one is not
 * worth its time; or the draft has reached its limit. The token is still sent: it costs one row.
 * @param probabilities the draft model's of the drafted tokens, each 0..1; at least one
 */
export function draftEnds(probabilities: readonly number[], { threshold, limit, pace }: DraftLimits): boolean {
  if (probabilities.length >= limit) return true
  if (!pace) return probabilities.at(-1)! < threshold
  const chance = probabilities.reduce((product, probability) => product * probability, 1)
  return !draftPays(chance, pace)
}

/**
 * Maximum tokens that a round may draft. With the token that verification adds, a round never passes the end of the answer;
 * its rows (the pending token's and one per drafted token) never pass the end of the context.
 * @param limit maximum tokens per draft, >= 0
 * @param remaining tokens that the answer may still have, >= 1
 * @param position of the pending token, from 0
 * @param contextLimit positions that the model has
 * @returns 0..limit
 */
export function maxDraftTokens(limit: number, remaining: number, position: number, contextLimit: number): number {
  return Math.max(0, Math.min(limit, remaining - 1, contextLimit - 1 - position))
}
