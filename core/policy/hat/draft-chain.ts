import { type DraftLimits, draftEnds } from './draft-stop.ts'

/** A token that a drafter proposes, without its id. */
export interface Guess {
  /** The drafter's confidence, 0..1. */
  readonly probability: number
  readonly endsText: boolean
  /** Other likely tokens in its place, the likeliest first: whether each ends the text. */
  readonly alternatives: readonly boolean[]
}

/** A draft that does not branch. */
export interface DraftChain {
  readonly guesses: readonly Guess[]
  /** Whether it is complete: HAT Eq. 5 or its pace, its length limit, an end of text, or no guess. */
  readonly ended: boolean
}

export const emptyChain: DraftChain = { guesses: [], ended: false }

/** A chain with the guesses that extend it, up to the guess that ends it. */
export function extended(chain: DraftChain, guesses: readonly Guess[], limits: DraftLimits): DraftChain {
  const all = [...chain.guesses]
  const probabilities = probabilitiesOf(chain)
  for (const guess of guesses) {
    all.push(guess)
    probabilities.push(guess.probability)
    if (draftEnds(probabilities, limits) || guess.endsText) return { guesses: all, ended: true }
  }
  return { guesses: all, ended: guesses.length === 0 }
}

/** Whether nothing more is drafted after it. What was drafted ahead cost nothing: only what continues it has to pay. */
export function isComplete(chain: DraftChain, limits: DraftLimits): boolean {
  const { length } = chain.guesses
  if (chain.ended || length >= limits.limit) return true
  return length > 0 && draftEnds(probabilitiesOf(chain), limits)
}

const probabilitiesOf = ({ guesses }: DraftChain) => guesses.map(({ probability }) => probability)
