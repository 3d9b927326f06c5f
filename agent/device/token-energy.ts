import { smooth } from '../../core/policy/hat/smooth.ts'

/** What counts of the past at each sample in which there was work. */
const memory = 0.8

interface Sampled {
  /** What the device takes now. */
  readonly watts: number
  /** Whether an answer is under way at this moment. */
  readonly isBusy: boolean
  /** Since the start: seconds in which any answer was under way, and tokens of those that have ended. */
  readonly busyS: number
  readonly tokens: number
}

/**
 * J per token: what the device takes while answers are under way, their prefill included, over their tokens. Sums that
 * forget, so that an answer longer than a sample's interval counts once it has ended.
 */
export class TokenEnergy {
  #busyWatts: number | undefined
  #joules = 0
  #tokens = 0
  #last = { busyS: 0, tokens: 0 }

  sampled({ watts, isBusy, busyS, tokens }: Sampled): void {
    if (isBusy) this.#busyWatts = smooth(this.#busyWatts, watts)
    const [moreS, more] = [busyS - this.#last.busyS, tokens - this.#last.tokens]
    this.#last = { busyS, tokens }
    // Of answers between samples alone nobody has seen the power.
    if (this.#busyWatts === undefined || (moreS === 0 && more === 0)) return
    this.#joules = memory * this.#joules + this.#busyWatts * moreS
    this.#tokens = memory * this.#tokens + more
  }

  /** Null until an answer has ended whose power was seen. */
  get jPerToken(): number | null {
    return this.#tokens > 0 ? Number((this.#joules / this.#tokens).toPrecision(3)) : null
  }
}
