import type { AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { DispatchedAnswer, type DispatchOptions } from './dispatched-answer.ts'
import type { EndpointPlan } from './plan.ts'

/** An answer that the ledger of disclosures knows. */
export interface BegunAnswer {
  /** As the owner's rules allow it. */
  readonly request: AnswerRequest
  end(): void
}

export interface DiscoOptions extends DispatchOptions {
  /** Before anything else is done for a request. */
  begin(request: AnswerRequest, signal: AbortSignal): Promise<BegunAnswer>
  /** What makes the answer by itself, because nothing is to be decided about it; undefined: it needs a plan. */
  alone?(request: AnswerRequest): Endpoint | undefined
  /** @throws BrimError where no side can answer */
  plan(request: AnswerRequest, signal: AbortSignal): Promise<EndpointPlan>
}

/** An endpoint made of a local and a remote one (DiSCo): its model is that of the tokens in requests. */
export function discoEndpoint(options: DiscoOptions): Endpoint {
  return {
    model: options.model,
    async *answer(given, signal) {
      const { request, end } = await options.begin(given, signal)
      let answer: DispatchedAnswer | undefined
      try {
        const alone = options.alone?.(request)
        if (alone) return yield* alone.answer(request, signal)
        const plan = await options.plan(request, signal)
        answer = new DispatchedAnswer(plan, request, options, signal)
        yield* answer.deltas()
      } finally {
        await answer?.close()
        end()
      }
    },
  }
}
