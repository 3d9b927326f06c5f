/** η of HAT Eq. 5. */
export const defaultDraftThreshold = 0.6
/** Max tokens of a draft that a bridge allows: with the pending token, a verification has 16 rows. */
export const defaultDraftLimit = 15

/** Where γ was never measured, a drafted token takes this part of the round's fixed time. */
const unknownDraftShare = 1 / 8
/** Seconds that a round takes at least: where nothing has been measured, its costs still have proportions. */
const minFixedS = 1e-3

/** What a session's rounds have been, smoothed. */
export interface UsualRound {
  /** Tokens that it adds to the answer, >= 1. */
  readonly tokens: number
  /** Tokens of its draft, >= 0. */
  readonly drafted: number
  /** Those of them that were not drafted ahead: the round waited for them. */
  readonly waited: number
}

/** Seconds of a round at the present delays. */
export interface RoundCosts {
  /** Of a round without a draft: the pending token, the link, the cloud, the head. */
  readonly fixedS: number
  /** γ: of drafting one token; undefined before the first. */
  readonly draftS: number | undefined
  /** Of one row more: its bytes both ways, and its part of the cloud's step. */
  readonly rowS: number
}

/** The same, with a guess in place of what was not measured. */
export function knownCosts({ fixedS, draftS, rowS }: RoundCosts): { fixedS: number; draftS: number; rowS: number } {
  const atLeast = Math.max(minFixedS, fixedS)
  return { fixedS: atLeast, draftS: draftS ?? unknownDraftShare * atLeast, rowS }
}

/**
 * Whether a token pays: it adds `chance` tokens to its round, and takes `costS`, in which the session gains
 * tokens / (fixedS + waited · draftS + drafted · rowS) · costS otherwise. Stopping at the average rate maximises it (renewal reward); that
 * the best stop is a threshold on the chance that all drafted tokens are right: SpecDec++, Huang et al. 2024, arXiv:2405.19715.
 * The rate follows the delays as they are now, so that a longer delay never makes a draft shorter.
 * @param chance that the token, and all before it, are right, 0..1
 */
export function tokenPays(chance: number, costS: number, round: UsualRound, costs: RoundCosts): boolean {
  const { fixedS, draftS, rowS } = knownCosts(costs)
  return chance > 0 && chance * (fixedS + round.waited * draftS + round.drafted * rowS) >= round.tokens * costS
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
