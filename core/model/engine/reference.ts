import { maskAfter, type TokenConstraint } from '../grammar/grammar.ts'
import type { Chain } from './contract.ts'
import { choiceGap, chooseToken, nearTie, type Sampling } from './sampler.ts'

/**
 * The sole definition of the right answer: the whole model in one process, one token per step, prompt included. Its states
 * are rounded to fp16 at the two cuts, as on the wire. `chain` must be of a split bundle with cuts 'half', or of a whole
 * bundle, which has no cuts.
 * @returns the answer's tokens, including the end-of-text token
 */
export async function referenceAnswer(
  chain: Chain,
  promptIds: readonly number[],
  sampling: Sampling,
  maxTokens: number,
  eos: readonly number[],
): Promise<number[]> {
  const answer: number[] = []
  await walk(chain, promptIds, async (logits, position) => {
    const token = chooseToken(logits, sampling, position, answer)
    answer.push(token)
    return answer.length < maxTokens && !eos.includes(token) ? token : undefined
  })
  return answer
}

interface Comparison {
  /** Every token is the reference's choice or nearly tied with it. */
  readonly identical: boolean
  readonly tokens: number
  /** Tokens that equal the reference's choice. */
  readonly agreeing: number
  /** Tokens that differ from the reference's choice by less than `nearTie`, because of rounding. */
  readonly nearTies: number
  /** The first token that rounding cannot explain: its index in the answer and its distance to the choice in logits. */
  readonly firstBug?: { readonly position: number; readonly gap: number }
}

/**
 * Compares an answer with the reference, teacher-forced: at every position the reference has read the answer's own tokens,
 * so that a near tie does not hide later differences. With cuts 'full', `agreeing` is the agreement with the unrounded
 * model.
 */
export async function compareWithReference(
  chain: Chain,
  promptIds: readonly number[],
  sampling: Sampling,
  answerIds: readonly number[],
  constraint?: TokenConstraint,
): Promise<Comparison> {
  let nearTies = 0
  let agreeing = 0
  let firstBug: { position: number; gap: number } | undefined
  const start = promptIds.length
  if (answerIds.length > 0)
    await walk(chain, promptIds, async (logits, position) => {
      const token = answerIds[position - start] as number
      const before = answerIds.slice(0, position - start)
      const gap = choiceGap(logits, sampling, position, token, before, await maskAfter(constraint, before))
      if (gap === 0) agreeing++
      else if (gap < nearTie) nearTies++
      else firstBug ??= { position: position - start, gap }
      return position - start + 1 < answerIds.length ? token : undefined
    })
  const counts = { tokens: answerIds.length, agreeing, nearTies }
  return firstBug ? { identical: false, ...counts, firstBug } : { identical: true, ...counts }
}

/** Feeds the prompt and then the tokens that `next` returns, one per step, until it returns undefined. */
async function walk(
  chain: Chain,
  promptIds: readonly number[],
  next: (logits: Float32Array, position: number) => Promise<number | undefined>,
): Promise<void> {
  const sequence = chain.createSequence()
  try {
    for (const id of promptIds.slice(0, -1)) await chain.step([{ sequence, ids: [id], select: 'none' }])
    let token = promptIds.at(-1)
    for (let position = promptIds.length; token !== undefined; position++) {
      const logits = await chain.step([{ sequence, ids: [token], select: 'last' }])
      token = await next(logits, position)
    }
  } finally {
    sequence.release()
  }
}
