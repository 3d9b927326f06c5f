import type { AnswerDelta, AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { inTokensOf, type TextModel, textOf } from '../../core/answer/endpoint/text-model.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'

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
        let at = answered ? inTokensOf(model, answered).length : 0
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

/** A server that answers with a text, word by word, and goes on in it. It breaks off after so many words of its first attempt. */
export function scriptedTextSide(
  text: string,
  failsAfter = Number.POSITIVE_INFINITY,
): Endpoint & { readonly answered: string[] } {
  const model = { name: 'remote' }
  const answered: string[] = []
  return {
    model,
    answered,
    async *answer(request): AsyncGenerator<AnswerDelta> {
      const before = request.answered ? textOf(request.answered) : ''
      const source = { kind: 'upstream', model } as const
      const limit = answered.push(before) === 1 ? failsAfter : Number.POSITIVE_INFINITY
      for (const [at, word] of (text.slice(before.length).match(/\s*\S+/g) ?? []).entries()) {
        if (at >= limit) throw new BrimError('UPSTREAM_FAILED', 'failed on purpose')
        yield { source, text: word, tokenCount: 1, end: undefined }
      }
      yield { source, text: '', tokenCount: 0, end: 'stop' }
    },
  }
}
