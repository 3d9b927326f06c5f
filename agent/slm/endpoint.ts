import { constraintOf, endOf, startOf, type TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { generate } from '../../core/model/engine/generate.ts'
import type { LocalModel } from './local-model.ts'
import type { PooledModel } from './model-pool.ts'

/** The device's small model as an endpoint. Measures how fast it reads prompts and writes. */
export function slmEndpoint({ text: model, chain, speed }: LocalModel, clock: Clock): TokenEndpoint {
  const source = { kind: 'slm', model } as const
  return {
    model,
    async *answer(request, signal) {
      const { ids: promptIds, answered, maxTokens, eos } = await startOf(request, model, signal)
      const { sampling, logprobs } = request
      const constraint = await constraintOf(request, model)
      let left = maxTokens
      let startedMs = clock.nowMs()
      let endStep = speed.beginStep()
      const asked = { promptIds, answered, maxTokens, eos, sampling, constraint, logprobs, signal, clock }
      try {
        for await (const event of generate(chain, undefined, asked)) {
          endStep()
          if (event.kind === 'end') {
            if (event.summary.finishReason === 'canceled') throw new BrimError('CANCELED', 'the answer was canceled')
            return
          }
          const seconds = (clock.nowMs() - startedMs) / 1_000
          if (left === maxTokens) speed.recordPrefill(promptIds.length, seconds)
          else speed.recordDecode(seconds)
          left -= 1
          const tokens = [event.token]
          yield { source, tokens, ...(event.logprobs && { logprobs: [event.logprobs] }), end: endOf(tokens, left, eos) }
          // The reader may have taken its time.
          startedMs = clock.nowMs()
          endStep = speed.beginStep()
        }
      } finally {
        constraint?.release()
        endStep()
      }
    },
  }
}

/** A small model that is borrowed for each answer, and opened if it is not open. */
export function borrowingEndpoint(
  model: TextModel,
  borrow: (signal: AbortSignal) => Promise<PooledModel>,
  clock: Clock,
): TokenEndpoint {
  return {
    model,
    async *answer(request, signal) {
      const borrowed = await borrow(signal).catch((error: unknown) => {
        throw signal.aborted ? new BrimError('CANCELED', 'the answer was canceled') : error
      })
      try {
        yield* slmEndpoint(borrowed.model, clock).answer(request, signal)
      } finally {
        borrowed.release()
      }
    },
  }
}
