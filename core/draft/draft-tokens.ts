import { type DraftLimits, draftEnds } from '../policy/hat/draft-stop.ts'
import type { KnownStream } from './device-stream.ts'
import type { Drafted, Drafter } from './drafter.ts'

/** Tokens that follow one another, drafted and fed. */
export interface Draft {
  readonly tokens: readonly number[]
  /** What the last of them might be too. */
  readonly others: readonly number[]
  /** Nothing more is to be drafted behind them: HAT Eq. 5, an end of text, no guess. */
  readonly ended: boolean
}

export interface DraftRules extends DraftLimits {
  /** Tokens that end the answer: nothing follows them. */
  readonly eos: readonly number[]
}

export const noDraft: Draft = { tokens: [], others: [], ended: false }

/** Of some guesses those that a draft of `drafted` tokens takes. */
export function takeGuesses(guesses: readonly Drafted[], drafted: number, rules: DraftRules): Draft {
  const ends = guesses.findIndex(
    ({ token, topProbability }, at) => draftEnds(topProbability, drafted + at + 1, rules) || rules.eos.includes(token),
  )
  const taken = ends < 0 ? guesses : guesses.slice(0, ends + 1)
  return { tokens: taken.map(({ token }) => token), others: taken.at(-1)?.others ?? [], ended: ends >= 0 || taken.length === 0 }
}

/**
 * One round's draft, after the pending token.
 * @param feed appends tokens to the stream, which is how their shallow states come about
 * @param ready what of it stands there already: it is gone on with
 */
export async function draftTokens(
  drafter: Drafter,
  known: KnownStream,
  feed: (tokens: readonly number[]) => Promise<void>,
  rules: DraftRules,
  ready: Draft = noDraft,
): Promise<Draft> {
  let draft = ready
  while (!draft.ended && draft.tokens.length < rules.limit) {
    const [guesses = []] = await drafter.next(known, [known.rows.length - 1])
    const { tokens, others, ended } = takeGuesses(guesses, draft.tokens.length, rules)
    if (tokens.length > 0) await feed(tokens)
    draft = { tokens: [...draft.tokens, ...tokens], others: tokens.length > 0 ? others : draft.others, ended }
  }
  return draft
}
