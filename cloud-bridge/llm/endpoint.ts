import { constraintOf, startOf, type TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Serving } from '../serving/serving.ts'
import type { TokenStream } from '../serving/token-stream.ts'

/** The owner of a client's answers, set apart from the devices, whose names hold no space. */
export const answerOwner = (client: string): string => `client ${client}`

/** The bridge's own LLM as an endpoint: the whole model, in the same steps as the devices' rows. */
export function bridgeEndpoint(serving: Pick<Serving, 'openTokens'>, model: TextModel): TokenEndpoint {
  const source = { kind: 'bridge', model } as const
  return {
    model,
    async *answer(request, signal) {
      const start = await startOf(request, model, signal)
      const { sampling, logprobs, scoresAnswered, tokensPerS, client } = request
      const constraint = await constraintOf(request, model)
      let stream: TokenStream | undefined
      const onAbort = () => void stream?.close()
      try {
        if (signal.aborted) throw canceled()
        stream = serving.openTokens(answerOwner(client), { ...start, sampling, constraint, logprobs, scoresAnswered, tokensPerS })
        signal.addEventListener('abort', onAbort, { once: true })
        for (;;) {
          const { choices, end, answeredLog2 } = await stream.next()
          if (signal.aborted) throw canceled()
          const tokens = choices.map(({ token }) => token)
          yield {
            source,
            tokens,
            end,
            ...(logprobs === undefined ? {} : { logprobs: choices.map((choice) => choice.logprobs!) }),
            ...(answeredLog2 && { answeredLog2 }),
          }
          if (end) return
        }
      } finally {
        signal.removeEventListener('abort', onAbort)
        await stream?.close()
        constraint?.release()
      }
    },
  }
}

const canceled = () => new BrimError('CANCELED', 'the answer was canceled')
