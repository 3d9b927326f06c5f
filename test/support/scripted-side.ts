import type { AnswerDelta, AnswerRequest, Endpoint } from '../../core/answer/endpoint.ts'
import type { TextModel } from '../../core/answer/text-model.ts'
import { systemClock } from '../../core/base/clock.ts'

export interface ScriptedSideOptions {
  readonly model: TextModel
  readonly kind: 'hat' | 'slm' | 'bridge'
  /** The whole answer; a continuation goes on in it. */
  readonly ids: readonly number[]
  readonly firstMs?: number
  readonly gapMs?: number
  /** Tokens of a delta. */
  readonly atOnce?: number
  /** After so many tokens of each attempt. */
  readonly failsAfter?: (attempt: number) => { readonly tokens: number; readonly error: Error } | undefined
}

/** An endpoint that answers as the test writes it, in real time. `steps`: tokens that it has computed, of all attempts. */
export function scriptedSide(options: ScriptedSideOptions): Endpoint & {
  readonly requests: readonly AnswerRequest[]
  readonly steps: number
  readonly working: number
} {
  const { model, kind, ids, firstMs = 0, gapMs = 0, atOnce = 1, failsAfter = () => undefined } = options
  const requests: AnswerRequest[] = []
  let steps = 0
  let working = 0
  return {
    model,
    requests,
    get steps() {
      return steps
    },
    get working() {
      return working
    },
    async *answer(request, signal): AsyncGenerator<AnswerDelta> {
      const failure = failsAfter(requests.length)
      requests.push(request)
      working += 1
      try {
        const { answered } = request
        let at = answered && 'ids' in answered ? answered.ids.length : 0
        const from = at
        const end = Math.min(ids.length, at + (request.maxTokens ?? Number.POSITIVE_INFINITY))
        await systemClock.sleep(firstMs, signal)
        while (at < end) {
          if (failure && at - from >= failure.tokens) throw failure.error
          const tokens = ids.slice(at, Math.min(end, at + atOnce))
          at += tokens.length
          steps += tokens.length
          const isLast = at >= end
          yield { source: { kind, model }, tokens, end: isLast ? (at >= ids.length ? 'stop' : 'length') : undefined }
          if (!isLast) await systemClock.sleep(gapMs, signal)
        }
      } finally {
        working -= 1
      }
    },
  }
}
