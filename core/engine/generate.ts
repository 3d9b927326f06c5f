import type { Clock } from '../base/clock.ts'
import { BrimError } from '../base/errors.ts'
import { AnswerStream } from '../text/answer-stream.ts'
import type { TextTokenizer } from '../text/tokenizer.ts'
import type { Chain } from './contract.ts'
import { checkSampling, chooseToken, type Sampling } from './sampler.ts'

export interface GenerateRequest {
  readonly promptIds: readonly number[]
  /** Absent: as many as the context holds. */
  readonly maxTokens?: number
  readonly sampling: Sampling
  readonly stop?: readonly string[]
  /** Ids that end the answer; by default those of the bundle. */
  readonly eos?: readonly number[]
  readonly signal?: AbortSignal
  /** Prompt tokens per step, 256 by default. */
  readonly prefillChunk?: number
  readonly clock: Clock
}

export type FinishReason = 'stop' | 'length' | 'canceled'

export interface AnswerSummary {
  readonly finishReason: FinishReason
  /** An end-of-text token included. */
  readonly tokenIds: readonly number[]
  readonly promptTokens: number
  /** Request → first text; null when none came. */
  readonly ttftMs: number | null
  /** Tokens after the first per second of decoding; null below two tokens. */
  readonly tokensPerS: number | null
}

/** `text` holds whole characters and is often empty. `end` comes last, once. */
export type GenerateEvent =
  | { readonly kind: 'token'; readonly token: number; readonly text: string }
  | { readonly kind: 'end'; readonly summary: AnswerSummary }

/**
 * One answer of the whole model; without a tokenizer its text is empty. Canceling (or leaving the loop) stops before the
 * next step and frees the sequence.
 * @throws BrimError before any work: CONTEXT_OVERFLOW, REQUEST_INVALID
 */
export async function* generate(
  chain: Chain,
  tokenizer: TextTokenizer | undefined,
  request: GenerateRequest,
): AsyncGenerator<GenerateEvent> {
  const { clock, promptIds, sampling, signal } = request
  const startedMs = clock.nowMs()
  checkSampling(sampling)
  const { dims, tokens } = chain.manifest
  const maxTokens = answerBudget(promptIds, request.maxTokens, dims)
  const answer = new AnswerStream(tokenizer, { maxTokens, eos: request.eos ?? tokens.eos, stop: request.stop ?? [] })
  let firstTextMs: number | undefined
  let firstTokenMs: number | undefined
  let lastMs = startedMs
  const sequence = chain.createSequence()
  /** Undefined once it is canceled, also when that happened during the step. */
  const step = async (ids: readonly number[], select: 'none' | 'last'): Promise<Float32Array | undefined> => {
    if (signal?.aborted) return undefined
    const logits = await chain.step([{ sequence, ids, select }])
    return signal?.aborted ? undefined : logits
  }
  try {
    let logits = await prefill(step, promptIds, request.prefillChunk ?? 256)
    while (logits && !answer.end) {
      const token = chooseToken(logits, sampling, promptIds.length + answer.tokenIds.length)
      const { text } = answer.push(token)
      lastMs = clock.nowMs()
      firstTokenMs ??= lastMs
      if (text !== '') firstTextMs ??= lastMs
      yield { kind: 'token', token, text }
      if (!answer.end) logits = await step([token], 'last')
    }
  } finally {
    sequence.release()
  }
  const decoded = answer.tokenIds.length - 1
  yield {
    kind: 'end',
    summary: {
      finishReason: answer.end ?? 'canceled',
      tokenIds: answer.tokenIds,
      promptTokens: promptIds.length,
      ttftMs: firstTextMs === undefined ? null : firstTextMs - startedMs,
      tokensPerS: firstTokenMs === undefined || decoded < 1 ? null : (decoded * 1000) / (lastMs - firstTokenMs),
    },
  }
}

/**
 * How many tokens the answer may have.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID (no prompt, a token id outside the vocabulary, maxTokens < 1)
 */
export function answerBudget(
  promptIds: readonly number[],
  maxTokens: number | undefined,
  { contextLimit, vocab }: { readonly contextLimit: number; readonly vocab: number },
): number {
  if (promptIds.length === 0)
    throw new BrimError('REQUEST_INVALID', 'the prompt has no tokens', { hint: 'give the prompt at least one token' })
  const alien = promptIds.find((id) => !(Number.isInteger(id) && id >= 0 && id < vocab))
  if (alien !== undefined)
    throw new BrimError('REQUEST_INVALID', `the prompt holds token id ${alien}; this model's ids are 0 to ${vocab - 1}`, {
      hint: 'use the tokenizer of the same checkpoint',
    })
  if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens >= 1))
    throw new BrimError('REQUEST_INVALID', `max tokens ${maxTokens} must be a whole number ≥ 1`, {
      hint: 'leave it out, or raise it',
    })
  const room = contextLimit - promptIds.length
  if (room < (maxTokens ?? 1))
    throw new BrimError(
      'CONTEXT_OVERFLOW',
      `prompt (${promptIds.length} tokens) and answer (${maxTokens ?? 'at least 1'}) exceed the model's context of ${contextLimit} tokens`,
      { hint: room > 0 ? `shorten the prompt, or ask for at most ${room} tokens` : 'shorten the prompt' },
    )
  return maxTokens ?? room
}

/** @returns the logits of the last prompt token, or undefined when it was canceled */
async function prefill(
  step: (ids: readonly number[], select: 'none' | 'last') => Promise<Float32Array | undefined>,
  ids: readonly number[],
  chunk: number,
): Promise<Float32Array | undefined> {
  let from = 0
  for (; from + chunk < ids.length; from += chunk) if (!(await step(ids.slice(from, from + chunk), 'none'))) return undefined
  return step(ids.slice(from), 'last')
}
