import type { Clock } from '../../core/base/clock.ts'
import { quantile } from '../../core/base/statistics.ts'

/** Round trips that the figures cover, and dispatches that are waited for at once. */
const maxMeasured = 10_000

/** From sending a job to the commit of its acceptance, in ms; null without samples. */
export interface DispatchFigures {
  readonly p50: number | null
  readonly p99: number | null
  readonly count: number
}

/** Measures the round trips of the latest dispatches. */
export class DispatchLatency {
  readonly #clock: Clock
  readonly #sentMs = new Map<string, number>()
  #roundTripsMs: number[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  onSent(job: string, attempt: number): void {
    // Attempts that are never accepted must not accumulate.
    if (this.#sentMs.size > maxMeasured) this.#sentMs.clear()
    this.#sentMs.set(`${job} ${attempt}`, this.#clock.nowMs())
  }

  /** The attempt's first event is stored; later events change nothing. */
  onStored(job: string, attempt: number): void {
    const key = `${job} ${attempt}`
    const sentMs = this.#sentMs.get(key)
    if (sentMs === undefined) return
    this.#sentMs.delete(key)
    this.#roundTripsMs.push(this.#clock.nowMs() - sentMs)
    if (this.#roundTripsMs.length >= 2 * maxMeasured) this.#roundTripsMs = this.#roundTripsMs.slice(-maxMeasured)
  }

  get figures(): DispatchFigures {
    const latest = this.#roundTripsMs.slice(-maxMeasured)
    const at = (q: number) => (latest.length === 0 ? null : quantile(latest, q))
    return { p50: at(0.5), p99: at(0.99), count: latest.length }
  }
}
