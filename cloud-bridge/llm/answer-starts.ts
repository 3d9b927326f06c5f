import type { ObservedAnswer, ObservedRequest } from '../../core/answer/endpoint/observe.ts'
import { createTtft } from '../../core/policy/disco/estimates.ts'
import type { HistogramWire } from '../../core/policy/estimate/forgetting-histogram.ts'
import { CloudMeter } from '../../core/policy/pice/cloud-meter.ts'

/** The retained state goes to every device of the fleet. */
const minAnnounceMs = 60_000

/**
 * F of the bridge's own model: from a request to its first token, with the wait for a step (DiSCo appendix C). Devices that have
 * not asked this bridge yet plan by it; the way to a device is not in it.
 */
export class AnswerStarts {
  readonly #ttftMs = createTtft()
  /** f(l). */
  readonly #meter = new CloudMeter()
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

  /** Of an answer that is asked for now; undefined before the first one of several tokens. */
  get msPerToken(): number | undefined {
    const { speed } = this.#meter
    return speed && Number((1_000 * speed.tpotS).toPrecision(3))
  }

  begin({ atMs, signal }: ObservedRequest): ObservedAnswer {
    const metered = this.#meter.begin(atMs)
    let hasBegun = false
    return {
      tokens: (count, nowMs) => {
        metered.tokens(count, nowMs)
        if (!hasBegun) this.#ttftMs.record(nowMs - atMs)
        hasBegun = true
      },
      asked: (nowMs) => metered.asked(nowMs),
      // A client that goes away first, such as a device whose own model was faster, tells how long it took at least.
      ended: (nowMs) => {
        metered.ended()
        if (hasBegun) this.#announce(nowMs)
        else if (signal.aborted) this.#ttftMs.recordAtLeast(nowMs - atMs)
      },
    }
  }

  #announce(nowMs: number): void {
    if (nowMs - this.#announcedMs < minAnnounceMs) return
    this.#announcedMs = nowMs
    this.#onChange()
  }
}
