import { answerRetryMs } from '../admission/answer.ts'
import { Ewma } from '../estimate/ewma.ts'
import { clientToDisplace } from '../fairness/full-room.ts'

/** A full queue, for the client of the answer that gets no place in it. */
export interface FullQueue {
  readonly waiting: number
  readonly retryAfterMs: number
}

/** What became of a new answer. `displaced`: the latest answer of another client, which waits no more, has lost its place to it. */
export type QueueEntry =
  | { readonly kind: 'entered' }
  | { readonly kind: 'refused'; readonly full: FullQueue }
  | { readonly kind: 'displaced'; readonly client: string; readonly full: FullQueue }

const entered: QueueEntry = { kind: 'entered' }

/** Answers that wait for their first step, at most so many. A full queue has a place for each client's share. Mutable. */
export class AnswerQueue {
  readonly #maxWaiting: number
  /** How many each client has. */
  readonly #clients = new Map<string, number>()
  readonly #intervalMs = new Ewma()
  #length = 0
  #leftMs: number | undefined

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  get length(): number {
    return this.#length
  }

  enter(client: string, nowMs: number): QueueEntry {
    const waiting = this.length
    const retryAfterMs = answerRetryMs({ waiting, maxWaiting: this.#maxWaiting, intervalMs: this.#intervalMs.value })
    const full = retryAfterMs === undefined ? undefined : { waiting, retryAfterMs }
    const other = full && clientToDisplace(this.#clients, client)
    if (full && other === undefined) return { kind: 'refused', full }
    if (other !== undefined) this.#count(other, -1)
    // The time without a queue says nothing about how fast it moves.
    if (this.length === 0) this.#leftMs = nowMs
    this.#count(client, 1)
    return full && other !== undefined ? { kind: 'displaced', client: other, full } : entered
  }

  /** The first step of one of the client's answers has begun, or it was canceled. */
  leave(client: string, nowMs: number): void {
    this.#count(client, -1)
    if (this.#leftMs !== undefined) this.#intervalMs.record(nowMs - this.#leftMs)
    this.#leftMs = nowMs
  }

  #count(client: string, by: number): void {
    this.#length += by
    const count = (this.#clients.get(client) ?? 0) + by
    if (count > 0) this.#clients.set(client, count)
    else this.#clients.delete(client)
  }
}
