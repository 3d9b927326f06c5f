import { answerRetryMs } from '../admission/answer.ts'
import { Ewma } from '../estimate/ewma.ts'
import { clientToDisplace } from '../fairness/full-room.ts'

/** A full queue, for the client of the answer that gets no place in it. */
export interface FullQueue {
  readonly waiting: number
  readonly retryAfterMs: number
}

/** What became of a new answer. `displaced`: another client's stream has lost its place to it. */
export type QueueEntry =
  | { readonly kind: 'entered' }
  | { readonly kind: 'refused'; readonly full: FullQueue }
  | { readonly kind: 'displaced'; readonly stream: number; readonly full: FullQueue }

const entered: QueueEntry = { kind: 'entered' }

/** Answers that wait for their first step, at most so many. A full queue has a place for each client's share. Mutable. */
export class AnswerQueue {
  readonly #maxWaiting: number
  /** Client → the ids of its streams, the latest last. */
  readonly #clients = new Map<string, Set<number>>()
  #length = 0
  readonly #intervalMs = new Ewma()
  #leftMs: number | undefined

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  get length(): number {
    return this.#length
  }

  /** @param stream its id */
  enter(stream: number, client: string, nowMs: number): QueueEntry {
    const waiting = this.length
    const retryAfterMs = answerRetryMs({ waiting, maxWaiting: this.#maxWaiting, intervalMs: this.#intervalMs.value })
    const full = retryAfterMs === undefined ? undefined : { waiting, retryAfterMs }
    const displaced = full && this.#displace(client)
    if (full && displaced === undefined) return { kind: 'refused', full }
    // The time without a queue says nothing about how fast it moves.
    if (this.length === 0) this.#leftMs = nowMs
    this.#length += 1
    const own = this.#clients.get(client)
    if (own) own.add(stream)
    else this.#clients.set(client, new Set([stream]))
    return full && displaced !== undefined ? { kind: 'displaced', stream: displaced, full } : entered
  }

  /** The answer's first step has begun, or it was canceled. Without effect after the first call. */
  leave(stream: number, client: string, nowMs: number): void {
    if (!this.#remove(stream, client)) return
    if (this.#leftMs !== undefined) this.#intervalMs.record(nowMs - this.#leftMs)
    this.#leftMs = nowMs
  }

  #remove(stream: number, client: string): boolean {
    const own = this.#clients.get(client)
    if (!own?.delete(stream)) return false
    this.#length -= 1
    if (own.size === 0) this.#clients.delete(client)
    return true
  }

  #displace(client: string): number | undefined {
    const counts = new Map(Array.from(this.#clients, ([name, { size }]) => [name, size]))
    const other = clientToDisplace(counts, client)
    if (other === undefined) return undefined
    const latest = [...this.#clients.get(other)!].at(-1)!
    this.#remove(latest, other)
    return latest
  }
}
