import type { Clock } from '../../core/base/clock.ts'

const windowMs = 60_000
const failuresPerWindow = 30
/** Beyond so many addresses all are forgotten: memory is bounded, and the limit is there to keep logs short. */
const mostAddresses = 10_000

/** Addresses that failed too often within a minute are not listened to until it is over. */
export class FailureLimit {
  readonly #clock: Clock
  readonly #failures = new Map<string, { sinceMs: number; count: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  exceeded(address: string): boolean {
    return (this.#current(address)?.count ?? 0) >= failuresPerWindow
  }

  failed(address: string): void {
    const current = this.#current(address)
    if (current) current.count += 1
    else {
      if (this.#failures.size >= mostAddresses) this.#failures.clear()
      this.#failures.set(address, { sinceMs: this.#clock.nowMs(), count: 1 })
    }
  }

  #current(address: string) {
    const found = this.#failures.get(address)
    return found && this.#clock.nowMs() - found.sinceMs < windowMs ? found : undefined
  }
}
