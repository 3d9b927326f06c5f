import { BrimError } from '../../core/base/errors.ts'
import { GenerateInput } from '../../core/protocol/jobs.ts'
import type { RoundsOptions } from '../answer/fallback.ts'
import type { AnswerMeter, AnswerSpeed } from '../answer/meter.ts'
import { speedOf } from '../answer/report.ts'
import { streamAnswer } from '../answer/stream-answer.ts'
import { type AnswerRequest, type RequestContext, readChatRequest, readCompletionRequest } from '../api/request.ts'
import { answerLocally } from '../slm/local-answer.ts'
import type { LocalModel } from '../slm/local-model.ts'
import type { JobHandler } from './runner.ts'

/** `hat.generate`: an answer of the split model. Its text came through the cloud and goes back there. */
export function hatGenerate(options: RoundsOptions, context: RequestContext, answers: AnswerMeter): JobHandler {
  return (input, say, signal) =>
    metered(answers, async (shows) => {
      const request = requestOf(input, context)
      let text = ''
      for await (const event of streamAnswer(options, request, options.clock.nowMs(), signal)) {
        if (event.kind === 'end') {
          const { finishReason, usage, report } = event
          shows(speedOf(report, usage.completion_tokens))
          return resultOf(text, finishReason, usage.prompt_tokens, usage.completion_tokens, { ...report })
        }
        text += event.text
        say(event.text)
      }
      throw new Error('an answer without an end')
    })
}

/** `slm.generate`: an answer of the device's own small model. */
export function slmGenerate(
  { clock }: RoundsOptions,
  local: LocalModel,
  nextSeed: () => number,
  answers: AnswerMeter,
): JobHandler {
  const { name, tokenizer, chatTemplate } = local
  return (input, say, signal) =>
    metered(answers, async (shows) => {
      const request = requestOf(input, { modelNames: [name], tokenizer, chatTemplate, nextSeed })
      let text = ''
      for await (const event of answerLocally(local, tokenizer, { ...request, signal, clock })) {
        if (event.kind === 'end') {
          const { finishReason, promptTokens, tokenIds, ttftMs, tokensPerS } = event.summary
          if (finishReason === 'canceled') throw new BrimError('CANCELED', 'the answer was stopped')
          shows({ model: name, tpotMs: tokensPerS === null ? null : 1_000 / tokensPerS, tokens: tokenIds.length })
          return resultOf(text, finishReason, promptTokens, tokenIds.length, { model: name, ttftMs, tokensPerS })
        }
        text += event.text
        say(event.text)
      }
      throw new Error('an answer without an end')
    })
}

/** Counts as an answer under way, whoever asked for it. */
async function metered<T>(answers: AnswerMeter, answer: (shows: (speed: AnswerSpeed) => void) => Promise<T>): Promise<T> {
  const ended = answers.begin()
  let speed: AnswerSpeed | undefined
  try {
    return await answer((shown) => {
      speed = shown
    })
  } finally {
    ended(speed)
  }
}

const resultOf = (text: string, finishReason: string, promptTokens: number, tokens: number, report: object) => ({
  text,
  finishReason,
  promptTokens,
  tokens,
  report,
})

/** As if an application on the device had asked for it. @throws BrimError REQUEST_INVALID, CHAT_TEMPLATE_INVALID */
export function requestOf(input: unknown, context: RequestContext): AnswerRequest {
  const parsed = GenerateInput.safeParse(input)
  if (!parsed.success) throw new BrimError('REQUEST_INVALID', `the job's input: ${parsed.error.issues[0]?.message ?? 'invalid'}`)
  const { messages, prompt, maxTokens, temperature, topP, topK, seed, stop } = parsed.data
  const body = { messages, prompt, max_tokens: maxTokens, temperature, top_p: topP, top_k: topK, seed, stop, user: 'brim-jobs' }
  return messages ? readChatRequest(body, context) : readCompletionRequest(body, context)
}
