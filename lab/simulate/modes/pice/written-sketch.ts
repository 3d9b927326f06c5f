import { tokensPerWord } from '../../../../core/answer/sketch/prompts.ts'
import type { Random } from '../../../../core/kit/base/random.ts'
import { draw } from '../../scenario/distribution.ts'
import type { RequestedAnswer } from '../../world/answer-record.ts'
import type { WrittenSketch } from './simulated-expansion.ts'

/** σ of the log of sentences' lengths. */
const lengthSpread = 0.35

/** The lines of a sketch, and the sentences that they become: long lines become long sentences (PICE §IV-B). */
export function writeSketch(
  { promptTokens, outputTokens }: Pick<RequestedAnswer, 'promptTokens' | 'outputTokens'>,
  {
    sketchTokens,
    expectedTokens,
    tokensPerSentence,
  }: Pick<WrittenSketch, 'sketchTokens' | 'expectedTokens'> & { tokensPerSentence: number },
  random: Random,
): WrittenSketch {
  const lines = Math.max(1, Math.min(outputTokens, Math.round(outputTokens / tokensPerSentence)))
  const weights = Array.from({ length: lines }, () => draw({ kind: 'lognormal', median: 1, sigma: lengthSpread }, random))
  const tokens = shared(outputTokens, weights)
  return {
    promptTokens,
    sketchTokens,
    expectedTokens,
    words: tokens.map((own) => Math.max(1, Math.round((sketchTokens / tokensPerWord) * (own / outputTokens)))),
    tokens,
  }
}

/** Whole numbers with this sum, >= 1, by weights. @param total >= the number of weights */
export function shared(total: number, weights: readonly number[]): number[] {
  const all = weights.reduce((sum, weight) => sum + weight, 0)
  const spare = total - weights.length
  let before = 0
  let given = 0
  return weights.map((weight) => {
    before += weight
    const upTo = Math.round((spare * before) / all)
    const own = 1 + upTo - given
    given = upTo
    return own
  })
}
