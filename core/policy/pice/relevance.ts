/** A text that its question does not make likelier has half of the full relevance. */
const neutral = 0.5

/**
 * How much a text has to do with its question, 0..1: whether the LLM finds it likelier after the question than without it. Both are
 * likelihoods of the same text, so its language, temperature and style count little. With the demonstration model the median
 * sentence gains 1.5 bits a token from its question, 1.0 from another question of the same kind, and a text of another kind
 * loses 2.5.
 * @param withQuestion, withoutQuestion mean log2 probability of the text's tokens
 */
export const relevanceOf = (withQuestion: number, withoutQuestion: number): number =>
  Math.min(1, Math.max(0, neutral + withQuestion - withoutQuestion))
