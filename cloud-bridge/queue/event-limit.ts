import { isFinal } from '../../core/policy/jobs/job.ts'
import { type JobEvent, maxEventBytes } from '../../core/protocol/jobs.ts'

/** Attempts that are counted at once. Beyond it all counts are dropped, to bound memory, and begin again at 0. */
const maxAttempts = 10_000

/**
 * Limits the size of the events that precede an attempt's result. Every event is stored, so without a limit one device
 * could fill the bridge's disk and displace the jobs of others. A correct device stays below the limit, because its
 * result contains every piece again.
 */
export class EventLimit {
  readonly #attempts = new Map<string, { n: number; cost: number }>()

  /** Counts the event. @returns whether its attempt exceeds the limit; a repeated event counts once */
  isExceededBy(device: string, event: JobEvent): boolean {
    const key = `${device} ${event.job} ${event.attempt}`
    const before = this.#attempts.get(key) ?? { n: 0, cost: 0 }
    if (isFinal(event)) {
      this.#attempts.delete(key)
      return false
    }
    if (event.n <= before.n) return false
    if (!this.#attempts.has(key) && this.#attempts.size >= maxAttempts) this.#attempts.clear()
    // An event without text still takes a row.
    const cost = before.cost + Math.max(1, event.type === 'text' ? event.text.length : 0)
    this.#attempts.set(key, { n: event.n, cost })
    return cost > maxEventBytes
  }
}
