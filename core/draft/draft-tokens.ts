import { type DraftLimits, draftEnds } from '../policy/hat/draft-stop.ts'
import type { KnownStream } from './device-stream.ts'
import type { DraftedToken, Drafter } from './drafter.ts'

/** A chain of drafted tokens whose rows have been computed. */
export interface Draft {
  readonly tokens: readonly number[]
  /** The drafter's confidence in each of them. */
  readonly probabilities: readonly number[]
  /** Other likely tokens in place of each of them. */
  readonly alternatives: readonly (readonly number[])[]
  /** Whether the draft is complete: HAT Eq. 5 or its pace, its length limit, an end of text, or no guess. */
  readonly ended: boolean
}

export interface DraftRules extends DraftLimits {
  /** Tokens that end the answer. */
  readonly eos: readonly number[]
}

export const noDraft: Draft = { tokens: [], probabilities: [], alternatives: [], ended: false }

/** A draft with the guesses that extend it, up to the guess that ends it. */
export function withGuesses(draft: Draft, guesses: readonly DraftedToken[], rules: DraftRules): Draft {
  const probabilities = [...draft.probabilities]
  const ends = guesses.findIndex(({ token, topProbability }) => {
    probabilities.push(topProbability)
    return draftEnds(probabilities, rules) || rules.eos.includes(token)
  })
  const taken = ends < 0 ? guesses : guesses.slice(0, ends + 1)
  return {
    tokens: [...draft.tokens, ...taken.map(({ token }) => token)],
    probabilities,
    alternatives: [...draft.alternatives, ...taken.map(({ alternatives }) => alternatives)],
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
  while (!isComplete(draft, rules)) {
    const [guesses = []] = await drafter.next(known, [known.rows.length - 1])
    const longer = withGuesses(draft, guesses, rules)
    const added = longer.tokens.slice(draft.tokens.length)
    if (added.length > 0) await feed(added)
    draft = longer
  }
  return draft
}

/** What was drafted ahead has cost nothing, so that only its continuation has to be worth its time. */
function isComplete({ ended, tokens, probabilities }: Draft, rules: DraftRules): boolean {
  if (ended || tokens.length >= rules.limit) return true
  return tokens.length > 0 && draftEnds(probabilities, rules)
}
