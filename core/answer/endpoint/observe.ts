import type { Clock } from '../../kit/base/clock.ts'
import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import type { AnswerDelta, AnswerRequest, Endpoint } from './endpoint.ts'

/** An answer that an endpoint is asked for. */
export interface ObservedRequest {
  readonly model: Endpoint['model']
  readonly request: AnswerRequest
  readonly signal: AbortSignal
  readonly atMs: number
}

/** `abort`: the reader left before the end, or the signal was aborted. */
export type ObservedEnd = AnswerEnd | 'abort' | 'error'

/** Follows one answer. Times in ms of the observer's clock. */
export interface ObservedAnswer {
  /** A delta of so many tokens, perhaps none, is there. The reader gets it afterwards. */
  tokens(count: number, nowMs: number, delta: AnswerDelta): void | Promise<void>
  /** The reader asks for more. */
  asked?(nowMs: number): void
  ended(nowMs: number, how: ObservedEnd): void
}

/** Begins to follow an answer. */
export type AnswerListener = (asked: ObservedRequest) => ObservedAnswer

export const tokensIn = (delta: AnswerDelta): number => ('text' in delta ? delta.tokenCount : delta.tokens.length)

/** The same endpoint; listeners follow its answers. */
export function observe<Kind extends Endpoint>(endpoint: Kind, clock: Clock, ...listeners: readonly AnswerListener[]): Kind {
  async function* answer(request: AnswerRequest, signal: AbortSignal): AsyncGenerator<AnswerDelta, void> {
    const asked: ObservedRequest = { model: endpoint.model, request, signal, atMs: clock.nowMs() }
    const observed = listeners.map((listen) => listen(asked))
    let how: ObservedEnd = 'abort'
    try {
      for await (const delta of endpoint.answer(request, signal)) {
        const nowMs = clock.nowMs()
        const count = tokensIn(delta)
        for (const each of observed) {
          const waiting = each.tokens(count, nowMs, delta)
          if (waiting) await waiting
        }
        how = delta.end ?? how
        yield delta
        for (const each of observed) each.asked?.(clock.nowMs())
      }
    } catch (error) {
      if (!signal.aborted) how = 'error'
      throw error
    } finally {
      for (const each of observed) each.ended(clock.nowMs(), how)
    }
  }
  return { ...endpoint, answer }
}
