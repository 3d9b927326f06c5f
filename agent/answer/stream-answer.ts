import { answerBudget } from '../../core/engine/generate.ts'
import { checkSampling } from '../../core/engine/sampler.ts'
import { type AnswerEnd, AnswerStream } from '../../core/text/answer-stream.ts'
import type { AnswerRequest } from '../api/request.ts'
import { answerRounds, type RoundsOptions } from './fallback.ts'
import { AnswerCourse, type Report } from './report.ts'

export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/** `text` holds whole characters; it is empty where a round completed none. `end` comes last, once. */
export type AnswerEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'end'; readonly finishReason: AnswerEnd; readonly usage: Usage; readonly report: Report }

/**
 * One answer as text. An event a round, the first when the first token is certain; at the last one the session has
 * ended on both sides, however slowly it is read.
 * @param acceptedMs when the request came
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID before any work; what the rounds throw
 */
export async function* streamAnswer(
  options: RoundsOptions,
  request: AnswerRequest,
  acceptedMs: number,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent> {
  const { manifest, tokenizer, clock } = options
  const { client, promptIds, sampling, stop, fallback } = request
  const { eos } = manifest.tokens
  checkSampling(sampling)
  const maxTokens = answerBudget(promptIds, request.maxTokens, manifest.dims)
  const answer = new AnswerStream(tokenizer, { maxTokens, eos, stop })
  const course = new AnswerCourse(acceptedMs)
  const hatRequest = { client, prompt: promptIds, maxTokens, sampling, eos, acceptedMs }
  let text = ''
  for await (const round of answerRounds(options, hatRequest, answer, fallback, signal)) {
    const before = answer.tokenIds.length
    text = ''
    for (const token of round.tokens) {
      text += answer.push(token).text
      // A stop string may end the answer in the middle of a round.
      if (answer.end) break
    }
    course.took(round, answer.tokenIds.length - before, text, clock.nowMs())
    if (answer.end) break
    yield { kind: 'text', text }
  }
  if (!answer.end) throw new Error('the session ended before its answer')
  yield { kind: 'text', text }
  yield {
    kind: 'end',
    finishReason: answer.end,
    usage: usageOf(promptIds.length, answer.tokenIds.length),
    report: course.report(request.tokenIds ? answer.tokenIds : undefined),
  }
}

function usageOf(prompt: number, completion: number): Usage {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}
