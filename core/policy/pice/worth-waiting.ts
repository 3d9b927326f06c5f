import type { SketchPlan } from './sketch-plans.ts'
import type { CloudSpeed } from './state.ts'

/**
 * PICE Eq. 2 compares when answers are complete. The reader of a streamed answer has read the last token after
 * max(first token + l / r, complete); an end that comes before the reader is there gains nothing.
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
 * Answers that come before the queue is gone, for each that waits: they gain by what makes it shorter, too. Of 1, 3 and 7, 3 is enough:
 * simulated at 1.2 and 2 times what an LLM can write, first tokens come 20 to 50 % sooner than with 1, below that as soon.
 */
const comingPerWaiting = 3

/**
 * What a sketch saves the answers that wait for the LLM, all together, in seconds. Where they wait because it writes as many as it
 * can, an answer takes of their wait what each place takes between two beginnings, and a sketch the part |r| / l of that.
 * @param waitedS that the length of this one has taken: where answers of unknown length wait, the queue looks shorter than it is
 */
export function othersGainS(
  { waitS, ttftS }: CloudSpeed,
  { budgetS, fullS }: Pick<SketchPlan, 'budgetS' | 'fullS'>,
  waitedS = 0,
): number {
  const queueS = Math.max(waitS, waitedS - ttftS)
  return (1 + comingPerWaiting) * queueS * (Math.max(0, budgetS) / (fullS - waitS))
}
