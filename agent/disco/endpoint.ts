import type { AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { DispatchedAnswer, type DispatchOptions } from './dispatched-answer.ts'
import type { EndpointPlan } from './plan.ts'

export interface DiscoOptions extends DispatchOptions {
  /** What makes the answer by itself, because nothing is to be decided about it; undefined: it needs a plan. */
  alone?(request: AnswerRequest): Endpoint | undefined
  /** @throws BrimError where no side can answer */
  plan(request: AnswerRequest, signal: AbortSignal): Promise<EndpointPlan>
}

/** An endpoint made of a local and a remote one (DiSCo): its model is that of the tokens in requests. */
export function discoEndpoint(options: DiscoOptions): Endpoint {
  return {
    model: options.model,
    async *answer(request, signal) {
      const alone = options.alone?.(request)
      if (alone) return yield* alone.answer(request, signal)
      const plan = await options.plan(request, signal)
      const answer = new DispatchedAnswer(plan, request, options, signal)
      try {
        yield* answer.deltas()
      } finally {
        await answer.close()
      }
    },
  }
}
