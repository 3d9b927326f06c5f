import { Ewma } from '../../core/policy/estimate/ewma.ts'

/** Weight of the past at each sample with new work. */
const memory = 0.8

interface Sampled {
  /** Power of the device now. */
  readonly watts: number
  /** Whether an answer is in progress now. */
  readonly isBusy: boolean
  /** Since the start: seconds during which any answer was in progress, and tokens of answers that have ended. */
  readonly busyS: number
  readonly tokens: number
}

/**
 * Energy per token: the device's power while answers are in progress, prefill included, over their tokens. Both are decaying
 * sums, so that an answer longer than the sampling interval counts once it has ended.
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
    // The power of answers that start and end between two samples is unknown.
    if (busyWatts === undefined || (moreS === 0 && more === 0)) return
    this.#joules = memory * this.#joules + busyWatts * moreS
    this.#tokens = memory * this.#tokens + more
  }

  /** Power while answers are in progress, and while none is; null until it has been measured. */
  get busyW(): number | null {
    return threeDigits(this.#busyWatts.value)
  }

  get idleW(): number | null {
    return threeDigits(this.#idleWatts.value)
  }

  /**
   * Energy per token by model: the device's power while answers are in progress / the model's rate.
   * @param tokensPerS by model @returns J by model; empty until the power has been measured
   */
  jPerTokenAt(tokensPerS: Readonly<Record<string, number>>): Record<string, number> {
    const { value: watts } = this.#busyWatts
    if (watts === undefined) return {}
    return Object.fromEntries(Object.entries(tokensPerS).map(([model, rate]) => [model, Number((watts / rate).toPrecision(3))]))
  }

  /** Null until an answer has ended whose power was measured. */
  get jPerToken(): number | null {
    return this.#tokens > 0 ? threeDigits(this.#joules / this.#tokens) : null
  }
}

const threeDigits = (value: number | undefined): number | null => (value === undefined ? null : Number(value.toPrecision(3)))
