import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { answerRetryMs } from '../../core/policy/admission/answer.ts'
import { Ewma } from '../../core/policy/estimate/ewma.ts'

/** Answers that wait for their first step, at most so many. */
export class AnswerQueue {
  readonly #maxWaiting: number
  readonly #clock: Clock
  readonly #waiting = new Set<number>()
  readonly #intervalMs = new Ewma()
  #leftMs: number | undefined

  constructor(maxWaiting: number, clock: Clock) {
    this.#maxWaiting = maxWaiting
    this.#clock = clock
  }

  get length(): number {
    return this.#waiting.size
  }

  /** @param stream its id; @throws BrimError QUEUE_FULL */
  enter(stream: number): void {
    const waiting = this.length
    const retryAfterMs = answerRetryMs({ waiting, maxWaiting: this.#maxWaiting, intervalMs: this.#intervalMs.value })
    if (retryAfterMs !== undefined)
      throw new BrimError('QUEUE_FULL', `${waiting} answers wait for the bridge's model, the maximum (limit waitingAnswers)`, {
        hint: 'ask again after the stated time',
        retryAfterMs,
      })
    // The time without a queue says nothing about how fast it moves.
    if (waiting === 0) this.#leftMs = this.#clock.nowMs()
    this.#waiting.add(stream)
  }

  /** The answer's first step has begun, or it was canceled. Without effect after the first call. */
  leave(stream: number): void {
    if (!this.#waiting.delete(stream)) return
    const nowMs = this.#clock.nowMs()
    if (this.#leftMs !== undefined) this.#intervalMs.record(nowMs - this.#leftMs)
    this.#leftMs = nowMs
  }
}
