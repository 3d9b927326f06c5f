import type { TokenEndpoint } from '../../core/answer/endpoint.ts'
import type { Clock } from '../../core/base/clock.ts'
import { createTtft } from '../../core/policy/disco/estimates.ts'
import type { HistogramWire } from '../../core/policy/estimate/forgetting-histogram.ts'

/** The retained state goes to every device of the fleet. */
const minAnnounceMs = 60_000

/**
 * F of the bridge's own model: from a request to its first token, with the wait for a step (DiSCo appendix C). Devices that have
 * not asked this bridge yet plan by it; the way to a device is not in it.
 */
export class AnswerStarts {
  readonly #ttftMs = createTtft()
  readonly #clock: Clock
  readonly #onChange: () => void
  #announcedMs = Number.NEGATIVE_INFINITY

  /** @param onChange called seldom: what `wire` returns is worth announcing */
  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /** In ms; undefined before the first answer. */
  get wire(): HistogramWire | undefined {
    return this.#ttftMs.toWire()
  }

  /** The same endpoint, whose answers are timed. */
  timed(endpoint: TokenEndpoint): TokenEndpoint {
    return { ...endpoint, answer: (...asked) => this.#time(endpoint, ...asked) }
  }

  async *#time(endpoint: TokenEndpoint, ...asked: Parameters<TokenEndpoint['answer']>): ReturnType<TokenEndpoint['answer']> {
    const requestedMs = this.#clock.nowMs()
    const [, signal] = asked
    let hasBegun = false
    try {
      for await (const delta of endpoint.answer(...asked)) {
        if (!hasBegun) this.#record(this.#clock.nowMs() - requestedMs)
        hasBegun = true
        yield delta
      }
    } finally {
      // A client that goes away first, such as a device whose own model was faster, tells how long it took at least.
      if (!hasBegun && signal.aborted) this.#ttftMs.recordAtLeast(this.#clock.nowMs() - requestedMs)
    }
  }

  #record(ms: number): void {
    this.#ttftMs.record(ms)
    const nowMs = this.#clock.nowMs()
    if (nowMs - this.#announcedMs < minAnnounceMs) return
    this.#announcedMs = nowMs
    this.#onChange()
  }
}
