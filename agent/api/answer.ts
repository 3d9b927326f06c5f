import type { Clock } from '../../core/base/clock.ts'
import { median, quantile } from '../../core/base/statistics.ts'
import { answerBudget } from '../../core/engine/generate.ts'
import { checkSampling } from '../../core/engine/sampler.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { type AnswerEnd, AnswerStream } from '../../core/text/answer-stream.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { HatRequest, HatRound } from '../hat/session.ts'
import type { HatSummary } from '../hat/summary.ts'
import type { AnswerRequest } from './request.ts'

/** How the answer came about: the `brim` field of responses and last chunks. Its TTFT is that of the first text. */
export interface Report extends Omit<HatSummary, 'tokens' | 'prefillMs' | 'tbtMs'> {
  readonly mode: 'hat'
  /** Gaps between delivered tokens; null below two tokens. Tokens of one round come together: gap 0. */
  readonly tbtMs: { readonly p50: number | null; readonly p95: number | null }
  /** Mean time per token after the first; null below two tokens. */
  readonly tpotMs: number | null
  readonly tokenIds?: readonly number[]
}

export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/** `text` holds whole characters; it is empty where a round completed none. `end` comes last, once. */
export type AnswerEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly finishReason: AnswerEnd; readonly usage: Usage; readonly report: Report }

export interface AnswerOptions {
  readonly manifest: Manifest
  readonly tokenizer: TextTokenizer
  readonly clock: Clock
  run(request: HatRequest, signal: AbortSignal): AsyncGenerator<HatRound, void>
}

/**
 * One answer as text. An event a round, the first when the first token is certain; at the last one the session has
 * ended on both sides, however slowly it is read.
 * @param acceptedMs when the request came
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID before any work; what the session throws
 */
export async function* streamAnswer(
  { manifest, tokenizer, clock, run }: AnswerOptions,
  request: AnswerRequest,
  acceptedMs: number,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent> {
  const { promptIds, sampling, stop } = request
  const { eos } = manifest.tokens
  checkSampling(sampling)
  const maxTokens = answerBudget(promptIds, request.maxTokens, manifest.dims)
  const answer = new AnswerStream(tokenizer, { maxTokens, eos, stop })
  const hatRequest = { client: request.client, prompt: promptIds, maxTokens, sampling, eos, acceptedMs }
  let last: HatRound | undefined
  let ttftMs: number | undefined
  let text = ''
  for await (const round of run(hatRequest, signal)) {
    last = round
    text = ''
    for (const token of round.tokens) {
      text += answer.push(token).text
      // A stop string may end the answer in the middle of a round.
      if (answer.end) break
    }
    if (text !== '') ttftMs ??= clock.nowMs() - acceptedMs
    if (answer.end) break
    yield { kind: 'text', text }
  }
  if (!last || !answer.end) throw new Error('the session ended before its answer')
  const summary = last.summary()
  yield { kind: 'text', text }
  yield {
    kind: 'end',
    finishReason: answer.end,
    usage: usageOf(promptIds.length, answer.tokenIds.length),
    report: reportOf({ ...summary, ttftMs: ttftMs ?? summary.ttftMs }, answer.tokenIds, request.tokenIds),
  }
}

function usageOf(prompt: number, completion: number): Usage {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

function reportOf(summary: HatSummary, tokenIds: readonly number[], withIds: boolean): Report {
  const { tokens: _tokens, prefillMs: _prefillMs, tbtMs, ...rest } = summary
  const gaps = tbtMs.slice(0, tokenIds.length - 1)
  const some = gaps.length > 0
  return {
    mode: 'hat',
    ...rest,
    tbtMs: { p50: some ? median(gaps) : null, p95: some ? quantile(gaps, 0.95) : null },
    tpotMs: some ? gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length : null,
    ...(withIds ? { tokenIds } : {}),
  }
}
