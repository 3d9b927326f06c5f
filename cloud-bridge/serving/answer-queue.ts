import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { answerRetryMs } from '../../core/policy/admission/answer.ts'
import { Ewma } from '../../core/policy/estimate/ewma.ts'
import { clientToDisplace } from '../../core/policy/fairness/full-room.ts'

/** Answers that wait for their first step, at most so many. A full queue has a place for each client's share. */
export class AnswerQueue {
  readonly #maxWaiting: number
  readonly #clock: Clock
  readonly #waiting = new Map<number, string>()
  /** Client → the ids of its streams, the latest last. */
  readonly #clients = new Map<string, Set<number>>()
  readonly #intervalMs = new Ewma()
  #leftMs: number | undefined

  constructor(maxWaiting: number, clock: Clock) {
    this.#maxWaiting = maxWaiting
    this.#clock = clock
  }

  get length(): number {
    return this.#waiting.size
  }

  /**
   * @param stream its id
   * @returns another client's stream that has lost its place to this one; undefined: none
   * @throws BrimError QUEUE_FULL
   */
  enter(stream: number, client: string): { readonly displaced: number; readonly error: BrimError } | undefined {
    const error = this.#fullError()
    const displaced = error && this.#displace(client)
    if (error && displaced === undefined) throw error
    // The time without a queue says nothing about how fast it moves.
    if (this.length === 0) this.#leftMs = this.#clock.nowMs()
    this.#waiting.set(stream, client)
    const own = this.#clients.get(client)
    if (own) own.add(stream)
    else this.#clients.set(client, new Set([stream]))
    return error && displaced !== undefined ? { displaced, error } : undefined
  }

  /** The answer's first step has begun, or it was canceled. Without effect after the first call. */
  leave(stream: number): void {
    if (!this.#remove(stream)) return
    const nowMs = this.#clock.nowMs()
    if (this.#leftMs !== undefined) this.#intervalMs.record(nowMs - this.#leftMs)
    this.#leftMs = nowMs
  }

  #remove(stream: number): boolean {
    const client = this.#waiting.get(stream)
    if (client === undefined) return false
    this.#waiting.delete(stream)
    const own = this.#clients.get(client)!
    own.delete(stream)
    if (own.size === 0) this.#clients.delete(client)
    return true
  }

  #displace(client: string): number | undefined {
    const counts = new Map(Array.from(this.#clients, ([name, { size }]) => [name, size]))
    const other = clientToDisplace(counts, client)
    const latest = other === undefined ? undefined : [...this.#clients.get(other)!].at(-1)
    if (latest !== undefined) this.#remove(latest)
    return latest
  }

  #fullError(): BrimError | undefined {
    const waiting = this.length
    const retryAfterMs = answerRetryMs({ waiting, maxWaiting: this.#maxWaiting, intervalMs: this.#intervalMs.value })
    if (retryAfterMs === undefined) return undefined
    return new BrimError('QUEUE_FULL', `${waiting} answers wait for the bridge's model, the maximum (limit waitingAnswers)`, {
      hint: 'ask again after the stated time',
      retryAfterMs,
    })
  }
}
