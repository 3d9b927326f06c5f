import type { Guess } from '../../policy/hat/draft-chain.ts'
import type { DraftedToken } from './drafter.ts'

/** A drafted token as the policy sees it. @param eos tokens that end the text */
export function guessOf({ token, source, topProbability, alternatives }: DraftedToken, eos: readonly number[]): Guess {
  return {
    source,
    probability: topProbability,
    endsText: eos.includes(token),
    alternatives: alternatives.map((other) => eos.includes(other)),
  }
}
