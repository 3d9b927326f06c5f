import type { RatedGuess } from './draft-acceptance.ts'
import type { DraftRule } from './draft-rounds.ts'

/** A token that a drafter proposes, without its id. */
export interface Guess extends RatedGuess {
  readonly endsText: boolean
  /** Other likely tokens in its place, the likeliest first: whether each ends the text. */
  readonly alternatives: readonly boolean[]
}

/** A draft that does not branch. */
export interface DraftChain {
  readonly guesses: readonly Guess[]
  /** Whether it is complete: by its rule or its length limit, an end of text, or no guess. */
  readonly ended: boolean
}

export const emptyChain: DraftChain = { guesses: [], ended: false }

/** A chain with the guesses that extend it, up to the one that ends it. */
export function extended(chain: DraftChain, guesses: readonly Guess[], rule: DraftRule): DraftChain {
  const all = [...chain.guesses]
  for (const guess of guesses) {
    if (all.length >= rule.limit || !rule.takes(all, guess)) return { guesses: all, ended: true }
    all.push(guess)
    if (guess.endsText) return { guesses: all, ended: true }
  }
  return { guesses: all, ended: guesses.length === 0 || all.length >= rule.limit || !rule.continues(all) }
}

/** Whether nothing more is drafted after it. What was drafted ahead cost nothing: only what continues it has to pay. */
export function isComplete({ guesses, ended }: DraftChain, rule: DraftRule): boolean {
  return ended || guesses.length >= rule.limit || !rule.continues(guesses)
}
