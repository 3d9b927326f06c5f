import { Ewma } from '../../core/policy/estimate/ewma.ts'

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
  readonly #busyWatts = new Ewma()
  readonly #idleWatts = new Ewma()
  #joules = 0
  #tokens = 0
  #last = { busyS: 0, tokens: 0 }

  sampled({ watts, isBusy, busyS, tokens }: Sampled): void {
    if (isBusy) this.#busyWatts.record(watts)
    else this.#idleWatts.record(watts)
    const { value: busyWatts } = this.#busyWatts
    const [moreS, more] = [busyS - this.#last.busyS, tokens - this.#last.tokens]
    this.#last = { busyS, tokens }
    // Of answers between samples alone nobody has seen the power.
    if (busyWatts === undefined || (moreS === 0 && more === 0)) return
    this.#joules = memory * this.#joules + busyWatts * moreS
    this.#tokens = memory * this.#tokens + more
  }

  /** What the device takes while answers are under way, and while none is; null until it was seen. */
  get busyW(): number | null {
    return threeDigits(this.#busyWatts.value)
  }

  get idleW(): number | null {
    return threeDigits(this.#idleWatts.value)
  }

  /**
   * What a token costs a model that does so many a second: the device's power while it answers over the rate.
   * @param tokensPerS by model @returns J, by model; empty until the power was seen
   */
  jPerTokenAt(tokensPerS: Readonly<Record<string, number>>): Record<string, number> {
    const { value: watts } = this.#busyWatts
    if (watts === undefined) return {}
    return Object.fromEntries(Object.entries(tokensPerS).map(([model, rate]) => [model, Number((watts / rate).toPrecision(3))]))
  }

  /** Null until an answer has ended whose power was seen. */
  get jPerToken(): number | null {
    return this.#tokens > 0 ? threeDigits(this.#joules / this.#tokens) : null
  }
}

const threeDigits = (value: number | undefined): number | null => (value === undefined ? null : Number(value.toPrecision(3)))
