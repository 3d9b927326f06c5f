import { isFinal } from '../../core/policy/jobs/job.ts'
import { type JobEvent, maxEventBytes } from '../../core/protocol/jobs.ts'

/** Beyond so many attempts all are forgotten: memory is bounded, and each may then say its part again. */
const mostKnown = 10_000

/**
 * How much an attempt may say before its result. Every piece is stored: without a bound one device could fill the bridge's disk,
 * and push out what others have finished. An honest one never meets it: all pieces of an answer are in its result again.
 */
export class EventLimit {
  readonly #said = new Map<string, { n: number; cost: number }>()

  /** @returns whether the attempt has said too much with this event; a repeat counts once */
  isExceededBy(device: string, event: JobEvent): boolean {
    const key = `${device} ${event.job} ${event.attempt}`
    const before = this.#said.get(key) ?? { n: 0, cost: 0 }
    if (isFinal(event)) {
      this.#said.delete(key)
      return false
    }
    if (event.n <= before.n) return false
    if (!this.#said.has(key) && this.#said.size >= mostKnown) this.#said.clear()
    // A row of its own costs something too, even where it says nothing.
    const cost = before.cost + Math.max(1, event.type === 'text' ? event.text.length : 0)
    this.#said.set(key, { n: event.n, cost })
    return cost > maxEventBytes
  }
}
