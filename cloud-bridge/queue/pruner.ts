import type { Clock } from '../../core/kit/base/clock.ts'
import type { RetentionLimits } from '../../core/policy/jobs/retention.ts'
import type { JobStore } from './job-store.ts'
import type { Surplus } from './retention.ts'

/** Interval between two searches for expired jobs. */
const searchMs = 60_000
/** Maximum time of one call. */
const sliceMs = 10

/** Deletes expired jobs in short slices, so that other work need not wait. */
export class Pruner {
  readonly #store: JobStore
  readonly #limits: RetentionLimits
  readonly #clock: Clock
  #surplus: Surplus | undefined
  #searchedMs = Number.NEGATIVE_INFINITY

  constructor(store: JobStore, limits: RetentionLimits, clock: Clock) {
    this.#store = store
    this.#limits = limits
    this.#clock = clock
  }

  /** @param wallMs wall clock */
  prune(wallMs: number): void {
    const startedMs = this.#clock.nowMs()
    if (startedMs - this.#searchedMs >= searchMs) {
      this.#surplus = this.#store.surplus(this.#limits, wallMs)
      this.#searchedMs = startedMs
    }
    while (this.#surplus && this.#clock.nowMs() - startedMs < sliceMs)
      if (this.#store.prune(this.#surplus) === 0) this.#surplus = undefined
  }
}
