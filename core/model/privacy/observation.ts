import { decodeFrame, decodeStates, encodeFrame, type UncodedWire } from '../../wire/protocol/frame.ts'
import { fromStates, type States } from '../../wire/protocol/states.ts'
import type { LoadedModel } from '../engine/open-model.ts'
import { referenceAnswer } from '../engine/reference.ts'
import { likeliestTokens, type Sampling } from '../engine/sampler.ts'
import { guessCount, type TokenGuess } from './token-guess.ts'

/** What a bridge receives and computes of one answer, and what the attacker is to find. */
export interface Observation {
  /** Of prompt and answer. */
  readonly ids: readonly number[]
  readonly promptTokens: number
  /** Of every token but the last one, which is sent nowhere: [ids.length - 1, hidden], as the bridge decodes them. */
  readonly rows: Float32Array
  /** What the public head makes of the states that the bridge itself computes: guesses of the token after each row. */
  readonly nextTokens: readonly TokenGuess[]
}

/**
 * What becomes of states between the device's layers and the bridge: their encoding, and what is to hide them. The width stays.
 * @param base position of the first row: at 0 it is that of the chat template's first token, which is no secret
 */
export type Sending = (states: States, base: number) => States

/** One answer of the reference, as HAT sends it. @param model a split one, with all its parts @param answer.maxTokens of the answer */
export async function observeAnswer(
  model: LoadedModel,
  promptIds: readonly number[],
  answer: { readonly sampling: Sampling; readonly maxTokens: number },
  send: Sending,
): Promise<Observation> {
  const { eos } = model.manifest.tokens
  const answerIds = await referenceAnswer(model.chain({ cuts: 'half' }), promptIds, answer.sampling, answer.maxTokens, eos)
  const ids = [...promptIds, ...answerIds]
  const rows = send(await statesOf(model, 'input', { ids: ids.slice(0, -1) }), 0)
  return observationOf(model, { ids, promptTokens: promptIds.length }, rows)
}

/** @param rows of every token but the last one, as the bridge gets them */
export async function observationOf(
  model: LoadedModel,
  { ids, promptTokens }: Pick<Observation, 'ids' | 'promptTokens'>,
  rows: States,
): Promise<Observation> {
  const { hidden, vocab } = model.manifest.dims
  const logits = await model.head().logits(await statesOf(model, 'middle', { states: rows }))
  const nextTokens = ids.slice(0, -1).map((_, at) => likeliestTokens(logits.subarray(at * vocab, (at + 1) * vocab), guessCount))
  return { ids, promptTokens, rows: fromStates(rows).subarray(0, (ids.length - 1) * hidden), nextTokens }
}

/** States of rows after nothing, as the device sends them. */
export async function statesOf(
  model: LoadedModel,
  part: 'input' | 'middle',
  input: { readonly ids: readonly number[] } | { readonly states: States },
): Promise<States> {
  const sequence = model.part(part).createSequence()
  try {
    const [states] = await model.part(part).step([{ sequence, ...input, select: 'all' }])
    return states!
  } finally {
    sequence.release()
  }
}

/** In frames of this encoding. */
export const onWire =
  (wire: UncodedWire): Sending =>
  (states, base) => {
    const frame = encodeFrame({ type: 'rows', session: 1n, epoch: 0, seq: 0, base }, states, { wire })
    return decodeStates(decodeFrame(frame), states.width)
  }
