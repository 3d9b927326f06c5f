import { ForgettingHistogram, type HistogramLayout } from '../estimate/forgetting-histogram.ts'
import { LinearFit } from '../estimate/linear-fit.ts'

/** F: time to a server's first token in ms. From 1 ms to 17 minutes; bins of 4.4 %. */
export const ttftLayout: HistogramLayout = { min: 1, max: 2 ** 20, perOctave: 16, halfLife: 200 }

/** Gaps between the pieces of a server's answers, in ms: those of some ten answers. */
export const gapsLayout: HistogramLayout = { ...ttftLayout, halfLife: 2_000 }

export const createGaps = (): ForgettingHistogram => new ForgettingHistogram(gapsLayout)

/** p(l) and lengths of answers, in tokens. Bins of 2.2 %: lengths up to 46 have their own. */
export const tokensLayout: HistogramLayout = { min: 1, max: 2 ** 20, perOctave: 32, halfLife: 500 }

/** F of one server, mutable. */
export const createTtft = (): ForgettingHistogram => new ForgettingHistogram(ttftLayout)

/** p(l), or the distribution of answer lengths; mutable. */
export const createTokenCounts = (): ForgettingHistogram => new ForgettingHistogram(tokensLayout)

/** k·l + c: the local side's time to its first token in ms, by prompt length; mutable. */
export const createLocalTtft = (): LinearFit => new LinearFit(ttftHalfLife)
export const ttftHalfLife = 50

/** Time between pieces in ms by their tokens: of some ten answers; mutable. */
export const createPace = (): LinearFit => new LinearFit(paceHalfLife)
export const paceHalfLife = 2_000

/** Expected length of an answer before the first has been seen: the paper's limit, of which many answers need less. */
const defaultAnswerTokens = 128

/** Of past answers, as far as it is needed; `ForgettingHistogram` is one. */
export interface PastLengths {
  readonly weight: number
  /** Mean of what longer ones had beyond so many tokens. */
  meanResidual(tokens: number): number
}

/**
 * Tokens that are expected to follow, by the answers that were longer than this one is. One that is longer than all that are
 * known is expected to be half written.
 * @param lengths of past answers @param maxTokens that may follow; absent: any number
 */
export function expectedRemaining(lengths: PastLengths, tokensSoFar: number, maxTokens = Number.POSITIVE_INFINITY): number {
  const expected = lengths.weight === 0 ? defaultAnswerTokens - tokensSoFar : lengths.meanResidual(tokensSoFar)
  return Math.min(expected > 0 ? expected : tokensSoFar, maxTokens)
}
