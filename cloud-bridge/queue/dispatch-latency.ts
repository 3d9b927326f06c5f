import type { Clock } from '../../core/kit/base/clock.ts'
import { RecentQuantiles } from '../../core/policy/estimate/recent-quantiles.ts'
import type { Health } from '../../core/wire/protocol/http/bridge.ts'

/** Round trips that the figures cover, and dispatches that are waited for at once. */
const maxMeasured = 10_000

/** From sending a job to the commit of its acceptance, in ms; null without samples. */
export type DispatchFigures = Health['jobs']['dispatchMs']

/** Measures the round trips of the latest dispatches. */
export class DispatchLatency {
  readonly #clock: Clock
  readonly #sentMs = new Map<string, number>()
  readonly #roundTripsMs = new RecentQuantiles(maxMeasured)

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
    this.#roundTripsMs.record(this.#clock.nowMs() - sentMs)
  }

  get figures(): DispatchFigures {
    const roundTripsMs = this.#roundTripsMs
    return { p50: roundTripsMs.at(0.5), p99: roundTripsMs.at(0.99), count: roundTripsMs.count }
  }
}
