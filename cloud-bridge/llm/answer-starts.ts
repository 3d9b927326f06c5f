import { createTtft } from '../../core/policy/disco/estimates.ts'
import type { HistogramWire } from '../../core/policy/estimate/forgetting-histogram.ts'
import type { ObservedAnswer, ObservedRequest } from './observe.ts'

/** The retained state goes to every device of the fleet. */
const minAnnounceMs = 60_000

/**
 * F of the bridge's own model: from a request to its first token, with the wait for a step (DiSCo appendix C). Devices that have
 * not asked this bridge yet plan by it; the way to a device is not in it.
 */
export class AnswerStarts {
  readonly #ttftMs = createTtft()
  readonly #onChange: () => void
  #announcedMs = Number.NEGATIVE_INFINITY

  /** @param onChange called seldom: what `wire` returns is worth announcing */
  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  /** In ms; undefined before the first answer. */
  get wire(): HistogramWire | undefined {
    return this.#ttftMs.toWire()
  }

  begin({ atMs, signal }: ObservedRequest): ObservedAnswer {
    let hasBegun = false
    return {
      tokens: (_, nowMs) => {
        if (!hasBegun) this.#record(nowMs - atMs, nowMs)
        hasBegun = true
      },
      // A client that goes away first, such as a device whose own model was faster, tells how long it took at least.
      ended: (nowMs) => {
        if (!hasBegun && signal.aborted) this.#ttftMs.recordAtLeast(nowMs - atMs)
      },
    }
  }

  #record(ms: number, nowMs: number): void {
    this.#ttftMs.record(ms)
    if (nowMs - this.#announcedMs < minAnnounceMs) return
    this.#announcedMs = nowMs
    this.#onChange()
  }
}
