import { type DraftLimits, draftEnds } from '../policy/hat/draft-stop.ts'
import type { KnownStream } from './device-stream.ts'
import type { DraftedToken, Drafter } from './drafter.ts'

/** A chain of drafted tokens whose rows have been computed. */
export interface Draft {
  readonly tokens: readonly number[]
  /** Other likely tokens in place of the last one. */
  readonly alternatives: readonly number[]
  /** Whether the draft is complete: HAT Eq. 5, its length limit, an end of text, or no guess. */
  readonly ended: boolean
}

export interface DraftRules extends DraftLimits {
  /** Tokens that end the answer. */
  readonly eos: readonly number[]
}

export const noDraft: Draft = { tokens: [], alternatives: [], ended: false }

/** The guesses that extend a draft of `drafted` tokens, up to the guess that ends it. */
export function acceptGuesses(guesses: readonly DraftedToken[], drafted: number, rules: DraftRules): Draft {
  const ends = guesses.findIndex(
    ({ token, topProbability }, at) => draftEnds(topProbability, drafted + at + 1, rules) || rules.eos.includes(token),
  )
  const taken = ends < 0 ? guesses : guesses.slice(0, ends + 1)
  return {
    tokens: taken.map(({ token }) => token),
    alternatives: taken.at(-1)?.alternatives ?? [],
    ended: ends >= 0 || taken.length === 0,
  }
}

/**
 * One round's draft, after the pending token.
 * @param feed appends tokens to the stream, which computes their shallow states
 * @param prepared tokens drafted ahead, already in the stream
 */
export async function draftTokens(
  drafter: Drafter,
  known: KnownStream,
  feed: (tokens: readonly number[]) => Promise<void>,
  rules: DraftRules,
  prepared: Draft = noDraft,
): Promise<Draft> {
  let draft = prepared
  while (!draft.ended && draft.tokens.length < rules.limit) {
    const [guesses = []] = await drafter.next(known, [known.rows.length - 1])
    const { tokens, alternatives, ended } = acceptGuesses(guesses, draft.tokens.length, rules)
    if (tokens.length > 0) await feed(tokens)
    draft = { tokens: [...draft.tokens, ...tokens], alternatives: tokens.length > 0 ? alternatives : draft.alternatives, ended }
  }
  return draft
}
