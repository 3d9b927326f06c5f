import type { Chain } from './contract.ts'
import { choiceGap, chooseToken, nearTie, type Sampling } from './sampler.ts'

/**
 * The sole definition of the right answer (DESIGN 'Exactness'): the whole model in one process, one token at a time,
 * prompt included, with the wire's rounding to fp16 at the two cuts. So `chain` is that of a split bundle, cuts 'half';
 * a bundle built whole has no cuts to round at.
 * @returns the answer's tokens, an end-of-text token included
 */
export async function referenceAnswer(
  chain: Chain,
  promptIds: readonly number[],
  sampling: Sampling,
  maxTokens: number,
  eos: readonly number[],
): Promise<number[]> {
  const answer: number[] = []
  await walk(chain, promptIds, (logits, position) => {
    const token = chooseToken(logits, sampling, position)
    answer.push(token)
    return answer.length < maxTokens && !eos.includes(token) ? token : undefined
  })
  return answer
}

export interface Comparison {
  /** The answer is the reference's: every token is its choice or nearly tied with it. */
  readonly identical: boolean
  readonly tokens: number
  /** Tokens that are exactly the reference's choice. */
  readonly agreeing: number
  /** Tokens that are not its choice but lie within `nearTie` of it: rounding decided. Together with `agreeing`: all. */
  readonly nearTies: number
  /** The first token that rounding cannot explain: its place in the answer, and how many logits the choice lies above it. */
  readonly firstBug?: { readonly position: number; readonly gap: number }
}

/**
 * Holds an answer against the reference, teacher-forced: at every position the reference has read the answer's own
 * tokens so far, so one near tie does not hide what comes after it. With a chain that does not round (cuts 'full'),
 * `agreeing` is the agreement with the unrounded model.
 */
export async function compareWithReference(
  chain: Chain,
  promptIds: readonly number[],
  sampling: Sampling,
  answerIds: readonly number[],
): Promise<Comparison> {
  let nearTies = 0
  let agreeing = 0
  let firstBug: { position: number; gap: number } | undefined
  const start = promptIds.length
  if (answerIds.length > 0)
    await walk(chain, promptIds, (logits, position) => {
      const token = answerIds[position - start] as number
      const gap = choiceGap(logits, sampling, position, token)
      if (gap === 0) agreeing++
      else if (gap < nearTie) nearTies++
      else firstBug ??= { position: position - start, gap }
      return position - start + 1 < answerIds.length ? token : undefined
    })
  const counts = { tokens: answerIds.length, agreeing, nearTies }
  return firstBug ? { identical: false, ...counts, firstBug } : { identical: true, ...counts }
}

/** Feeds the prompt, then what `next` says, one token at a time, until it says nothing. `position` counts from the prompt's first token. */
async function walk(
  chain: Chain,
  promptIds: readonly number[],
  next: (logits: Float32Array, position: number) => number | undefined,
): Promise<void> {
  const sequence = chain.createSequence()
  try {
    for (const id of promptIds.slice(0, -1)) await chain.step([{ sequence, ids: [id], select: 'none' }])
    let token = promptIds.at(-1)
    for (let position = promptIds.length; token !== undefined; position++) {
      const logits = await chain.step([{ sequence, ids: [token], select: 'last' }])
      token = next(logits, position)
    }
  } finally {
    sequence.release()
  }
}
