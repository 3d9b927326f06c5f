import { rouge1 } from './rouge.ts'

/** α1 and α2 of Eq. 3; the rest up to 1 is the weight of ROUGE-1. The paper publishes no values. */
export interface ConfidenceWeights {
  /** α1 ≥ 0, of the geometric mean of the tokens' probabilities. */
  readonly probability: number
  /** α2 ≥ 0, of the length; α1 + α2 ≤ 1. */
  readonly length: number
  /** F1 punishes the detail that the length rewards: an expansion of 5 times its sketch reaches at most 0.33. */
  readonly rouge: 'recall' | 'f1'
}

export const defaultWeights: ConfidenceWeights = { probability: 0.4, length: 0.2, rouge: 'recall' }

/** An expansion of a sketch, or of one line of it. */
export interface Candidate {
  readonly text: string
  readonly tokens: number
  /** (1/N) Σ log2 p(w_i); null: its server gives no probabilities. */
  readonly meanLog2Probability: number | null
}

/**
 * con(ŷ), 0..1 (PICE Eq. 3). Without probabilities their term is left out and the others are scaled up to 1; such
 * confidences do not compare with those of other models.
 * @param sketch r: what the candidate expands
 * @param expectedTokens length of a candidate with all the detail that counts: beyond it, length adds nothing
 */
export function confidence(
  { text, tokens, meanLog2Probability }: Candidate,
  sketch: string,
  expectedTokens: number,
  { probability, length, rouge }: ConfidenceWeights = defaultWeights,
): number {
  const similarity = 1 - probability - length
  const textScore = length * Math.min(1, tokens / expectedTokens) + similarity * rouge1(sketch, text)[rouge]
  if (meanLog2Probability === null) return length + similarity > 0 ? textScore / (length + similarity) : 0
  return probability * 2 ** meanLog2Probability + textScore
}

/**
 * The candidate with the highest confidence, the first of equal ones, and the confidence of each. Probabilities count only if all
 * candidates have them.
 * @throws RangeError without any candidate
 */
export function mostConfident<C extends Candidate>(
  candidates: readonly C[],
  sketch: string,
  expectedTokens: number,
  weights?: ConfidenceWeights,
): { readonly candidate: C; readonly confidence: number; readonly confidences: readonly number[] } {
  const haveAll = candidates.every(({ meanLog2Probability }) => meanLog2Probability !== null)
  const confidences = candidates.map((candidate) =>
    confidence(haveAll ? candidate : { ...candidate, meanLog2Probability: null }, sketch, expectedTokens, weights),
  )
  const highest = Math.max(...confidences)
  const candidate = candidates[confidences.indexOf(highest)]
  if (!candidate) throw new RangeError('no candidate to choose from')
  return { candidate, confidence: highest, confidences }
}
