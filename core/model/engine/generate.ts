import type { Clock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { maskAfter, type TokenConstraint } from '../grammar/grammar.ts'
import { AnswerStream } from '../text/answer-stream.ts'
import type { TextTokenizer } from '../text/tokenizer.ts'
import type { Chain } from './contract.ts'
import { choose, type TokenLogprobs } from './logprobs.ts'
import { checkSampling, type Sampling } from './sampler.ts'

export interface GenerateRequest {
  readonly promptIds: readonly number[]
  /** The answer so far, with which `promptIds` ends: penalties count its tokens. Default: a new answer. */
  readonly answered?: readonly number[]
  /** Default: up to the context limit. */
  readonly maxTokens?: number | undefined
  readonly sampling: Sampling
  /** Likeliest tokens that are reported beside each choice; undefined: no log probabilities. */
  readonly logprobs?: number | undefined
  /** What the answer is kept to. Default: nothing. */
  readonly constraint?: TokenConstraint | undefined
  readonly stop?: readonly string[]
  /** Ids that end the answer. Default: those of the bundle. */
  readonly eos?: readonly number[]
  readonly signal?: AbortSignal
  /** Prompt tokens per step. Default: 256. */
  readonly prefillChunk?: number
  readonly clock: Clock
}

type FinishReason = 'stop' | 'length' | 'canceled'

export interface GenerationSummary {
  readonly finishReason: FinishReason
  /** Includes the end-of-text token. */
  readonly tokenIds: readonly number[]
  readonly promptTokens: number
  /** Request → first text; null without text. */
  readonly ttftMs: number | null
  /** Tokens after the first per second of decoding; null for fewer than two tokens. */
  readonly tokensPerS: number | null
}

/** `text` consists of whole characters and is often empty. `end` is the last event. */
export type GenerateEvent =
  | { readonly kind: 'token'; readonly token: number; readonly text: string; readonly logprobs?: TokenLogprobs }
  | { readonly kind: 'end'; readonly summary: GenerationSummary }

/**
 * Generates one answer of the whole model; without a tokenizer its text is empty. Cancelling, or leaving the loop, stops
 * before the next step and releases the sequence.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID, before any work
 */
export async function* generate(
  chain: Chain,
  tokenizer: TextTokenizer | undefined,
  request: GenerateRequest,
): AsyncGenerator<GenerateEvent> {
  const { clock, promptIds, answered = [], sampling, constraint, signal } = request
  const startedMs = clock.nowMs()
  checkSampling(sampling)
  const { dims, tokens } = chain.manifest
  const maxTokens = answerBudget(promptIds, request.maxTokens, dims)
  const answer = new AnswerStream(tokenizer, { maxTokens, eos: request.eos ?? tokens.eos, stop: request.stop ?? [] })
  let firstTextMs: number | undefined
  let firstTokenMs: number | undefined
  let lastMs = startedMs
  const sequence = chain.createSequence()
  /** @returns undefined if the request is cancelled before or during the step */
  const step = async (ids: readonly number[], select: 'none' | 'last'): Promise<Float32Array | undefined> => {
    if (signal?.aborted) return undefined
    const logits = await chain.step([{ sequence, ids, select }])
    return signal?.aborted ? undefined : logits
  }
  let beginning = [...answered]
  /** The logits of these tokens' step; meanwhile the thread of grammars makes the mask of the token that follows. */
  const stepWithMask = async (logits: () => Promise<Float32Array | undefined>) => {
    const mask = maskAfter(constraint, beginning)
    mask.catch(() => {}) // It is not awaited where the step fails or is cancelled.
    const row = await logits()
    return row && { row, mask: await mask }
  }
  try {
    let next = await stepWithMask(() => prefill(step, promptIds, request.prefillChunk ?? 256))
    while (next && !answer.end) {
      const position = promptIds.length + answer.tokenIds.length
      const choice = choose(next.row, request, position, beginning, next.mask)
      const { token } = choice
      beginning = [...beginning, token]
      const { text } = answer.push(token)
      lastMs = clock.nowMs()
      firstTokenMs ??= lastMs
      if (text !== '') firstTextMs ??= lastMs
      yield { kind: 'token', text, ...choice }
      if (!answer.end) next = await stepWithMask(() => step([token], 'last'))
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
 * The maximum number of tokens of the answer.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID (no prompt, a token id outside the vocabulary, maxTokens < 1)
 */
export function answerBudget(
  promptIds: readonly number[],
  maxTokens: number | undefined,
  { contextLimit, vocab }: { readonly contextLimit: number; readonly vocab: number },
): number {
  if (promptIds.length === 0)
    throw new BrimError('REQUEST_INVALID', 'the prompt has no tokens', { hint: 'give a prompt of at least one token' })
  const invalid = promptIds.find((id) => !(Number.isInteger(id) && id >= 0 && id < vocab))
  if (invalid !== undefined)
    throw new BrimError('REQUEST_INVALID', `the prompt has token id ${invalid}; this model's ids are 0 to ${vocab - 1}`, {
      hint: 'use the tokenizer of the same checkpoint',
    })
  if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens >= 1))
    throw new BrimError('REQUEST_INVALID', `the maximum number of tokens is ${maxTokens}; it must be an integer ≥ 1`, {
      hint: 'omit it, or raise it',
    })
  const free = contextLimit - promptIds.length
  if (free < (maxTokens ?? 1))
    throw new BrimError(
      'CONTEXT_OVERFLOW',
      `prompt (${promptIds.length} tokens) and answer (${maxTokens ?? 'at least 1'}) exceed the model's context of ${contextLimit} tokens`,
      { hint: free > 0 ? `shorten the prompt, or request at most ${free} tokens` : 'shorten the prompt' },
    )
  return maxTokens ?? free
}

/** @returns the logits of the last prompt token, or undefined if the request is cancelled */
async function prefill(
  step: (ids: readonly number[], select: 'none' | 'last') => Promise<Float32Array | undefined>,
  ids: readonly number[],
  chunk: number,
): Promise<Float32Array | undefined> {
  let from = 0
  for (; from + chunk < ids.length; from += chunk) if (!(await step(ids.slice(from, from + chunk), 'none'))) return undefined
  return step(ids.slice(from), 'last')
}
