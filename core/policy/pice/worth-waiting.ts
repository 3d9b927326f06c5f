import type { SketchPlan } from './sketch-plans.ts'
import type { CloudSpeed } from './state.ts'

/**
 * Eq. 2 compares when answers are complete. Who reads along has read the last token after max(first token + l / r, complete), and
 * an end that comes before he is there is worth nothing to him.
 */
export interface AlongReader {
  /** l. */
  readonly tokens: number
  /** r. */
  readonly tokensPerS: number
}

/** When a full answer has been read to its end, in seconds from now. */
export const readFullS = ({ waitS, ttftS }: CloudSpeed, fullS: number, { tokens, tokensPerS }: AlongReader): number =>
  Math.max(waitS + ttftS + tokens / tokensPerS, fullS)

/** The same of a sketched one. Its sentences are decoded together, so that the first is hardly complete before the last. */
export const readSketchedS = ({ predictedS }: Pick<SketchPlan, 'predictedS'>, { tokens, tokensPerS }: AlongReader): number =>
  predictedS + tokens / tokensPerS

/**
 * Answers that come while those that wait are worked off, for each of these: a queue that is not just a burst lasts, and what it
 * loses in length by a sketch, these gain as well.
 */
const comingPerWaiting = 1

/**
 * What a sketch saves the answers that wait for the LLM, all together, in seconds. Where they wait because it writes as many as it
 * can, an answer takes of their wait what each place takes between two beginnings, and a sketch the part |r| / l of that.
 */
export const othersGainS = ({ waitS }: CloudSpeed, { budgetS, fullS }: Pick<SketchPlan, 'budgetS' | 'fullS'>): number =>
  (1 + comingPerWaiting) * waitS * (Math.max(0, budgetS) / (fullS - waitS))
