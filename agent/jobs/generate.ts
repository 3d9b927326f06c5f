import type { AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { type AnswerSummary, collectAnswer, type StreamOptions, streamAnswer } from '../../core/answer/endpoint/stream-answer.ts'
import { GenerateInput } from '../../core/wire/protocol/jobs.ts'
import { type JobHandler, parseInput } from './job-handler.ts'

export interface GenerateOptions extends StreamOptions {
  /** For inputs without a seed. */
  readonly nextSeed: () => number
}

/** Jobs share one prefix cache, apart from those of the API's clients. */
export const jobClient = 'brim-jobs'

/** `hat.generate`: an answer of the split model. Its text came through the cloud and goes back there. */
export const hatGenerate = (options: GenerateOptions): JobHandler => generateJob(options, ({ report }) => ({ ...report }))

/** `slm.generate`: an answer of the device's small model. */
export const slmGenerate = (options: GenerateOptions): JobHandler =>
  generateJob(options, ({ report: { ttftMs, tpotMs } }) => {
    return { model: options.endpoint.model.name, ttftMs, tokensPerS: tpotMs === null ? null : 1_000 / tpotMs }
  })

function generateJob(options: GenerateOptions, reportOf: (answer: AnswerSummary) => object): JobHandler {
  return async (input, emitText, signal) => {
    const request = requestOf(parseInput(GenerateInput, input), options.nextSeed)
    const answer = await collectAnswer(streamAnswer(options, request, signal), ({ text }) => emitText(text))
    const { text, finishReason, promptTokens, tokens } = answer
    return { text, finishReason, promptTokens, tokens, report: reportOf(answer) }
  }
}

/** A conversation, or a plain prompt. */
export function promptOf({ messages, prompt = '' }: Pick<GenerateInput, 'messages' | 'prompt'>): Prompt {
  return new Prompt(messages ? { kind: 'chat', messages } : { kind: 'text', text: prompt })
}

function requestOf(input: GenerateInput, nextSeed: () => number): AnswerRequest {
  const { maxTokens, temperature, topP, topK, seed, stop } = input
  return {
    prompt: promptOf(input),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    sampling: { temperature, topP, topK, seed: seed ?? nextSeed() },
    stop,
    client: jobClient,
  }
}
