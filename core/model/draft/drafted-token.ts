import type { GuessSource } from '../../policy/hat/draft-acceptance.ts'
import { chooseTokens, type Sampling, topProbability } from '../engine/sampler.ts'
import { masked, type TokenMask } from '../grammar/grammar.ts'
import type { DraftedToken } from './drafter.ts'

/** Maximum alternatives per drafted token. Drafting ahead begins one branch for each, besides the branch of the draft. */
const maxAlternatives = 2

/**
 * What a draft model with these logits guesses. It samples with the LLM's noise, so that both choose the same token most often.
 * @param logits [vocab], overwritten @param position text position of the token @param mask tokens that the answer's grammar allows
 */
export function draftedToken(
  source: GuessSource,
  logits: Float32Array,
  sampling: Sampling,
  position: number,
  mask?: TokenMask,
): DraftedToken {
  const row = mask ? masked(logits, mask) : logits
  const probability = topProbability(row)
  const [token, ...alternatives] = chooseTokens(row, sampling, position, 1 + maxAlternatives)
  return { token: token!, source, topProbability: probability, alternatives }
}
