import { type AnswerRequest, constraintOf, endOf, startOf, type TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { drainRate } from '../../core/kit/base/reader-rates.ts'
import type { TokenConstraint } from '../../core/model/grammar/grammar.ts'
import type { HatOptions } from './hat-options.ts'
import { answerByHat } from './session.ts'

/** The split model as an endpoint: each answer is a HAT session. */
export function hatEndpoint(options: HatOptions, model: TextModel): TokenEndpoint {
  const source = { kind: 'hat', model } as const
  return {
    model,
    async *answer(request, signal) {
      const ended = options.begin?.()
      let constraint: TokenConstraint | undefined
      let free: (() => void) | undefined
      try {
        const { ids: prompt, answered, maxTokens, eos } = await startOf(request, model, signal)
        const { client, sampling, logprobs, onWaiting, disclosed } = request
        const common = { client, sampling, logprobs, onWaiting, answer: disclosed?.answer }
        free = await options.slots?.take(signal)
        constraint = await constraintOf(request, model)
        const tokensPerS = drainRate(request.tokensPerS)
        let left = maxTokens
        const session = { ...common, prompt, answered, maxTokens, constraint, eos, tokensPerS }
        for await (const { tokens, logprobs, figures } of answerByHat(tracedOptions(options, request), session, signal)) {
          left -= tokens.length
          yield { source, tokens, ...(logprobs && { logprobs }), end: endOf(tokens, left, eos), figures }
        }
      } finally {
        constraint?.release()
        free?.()
        ended?.()
      }
    },
  }
}

/** Each session that the answer opens names the span that asks for it. */
const tracedOptions = (options: HatOptions, { traceparent }: AnswerRequest): HatOptions =>
  traceparent === undefined
    ? options
    : { ...options, open: (signal, session) => options.open(signal, { ...session, traceparent }) }
