import { Ewma } from './ewma.ts'

/** A frame and its reply as the device sees them; times by the device's clock, in seconds. */
export interface Exchange {
  readonly bytesUp: number
  readonly bytesDown: number
  readonly sentS: number
  readonly answeredS: number
  /** Seconds that the bridge had the frame before it replied: waiting and computing. */
  readonly cloudS: number
  /** Whether all of its rows returned: a draft was verified. Chunks of prompts take longer. */
  readonly isVerification?: boolean
}

/** Smaller transfers measure the clocks rather than the link. */
const minBytes = 2048
/** Round trips remembered: the shortest of them met no queue. */
const maxRoundTrips = 8
/** Shorter times are below the resolution of timers. */
const minS = 1e-4
/** A verification that takes so many times what was expected, and this much longer, is a surprise. */
const surprise = { ratio: 1.5, seconds: 0.01 }

/**
 * β_up, β_down and the round trip of a device's link, measured from its real frames (HAT 'State monitoring'). Mutable. A
 * frame's upload begins when it is sent or when the frame before it has arrived, and ends when its reply arrives, less the
 * time of the bridge and of the way back.
 */
export class LinkRates {
  /** The paper gives no weight of the past for β. */
  readonly #up = new Ewma()
  readonly #down = new Ewma()
  readonly #cloudS = new Ewma()
  readonly #verificationS = new Ewma()
  #upAtS: number | undefined
  #downAtS: number | undefined
  readonly #roundTripsS: number[] = []
  /** When the last frame known to have arrived did so, at the bridge's end of the link. */
  #arrivedS = Number.NEGATIVE_INFINITY
  #answeredS = Number.NEGATIVE_INFINITY
  /** Whether a surprise had a ping sent, and whether that has been answered. */
  #doubt: 'none' | 'asked' | 'answered' = 'none'
  readonly #ask: () => void

  /**
   * @param ask sends a ping: a delay that has grown between pings, which are rare, would be taken for a slow link. What has surprised
   *   is not measured before the answer
   */
  constructor(ask: () => void = () => {}) {
    this.#ask = ask
  }

  /** Undefined before the first frame that is large enough. */
  get upBytesPerS(): number | undefined {
    return this.#up.value
  }

  get downBytesPerS(): number | undefined {
    return this.#down.value
  }

  /** When the older of the two rates was measured, by the device's clock; undefined while one of them is unknown. */
  get measuredS(): number | undefined {
    return this.#upAtS === undefined || this.#downAtS === undefined ? undefined : Math.min(this.#upAtS, this.#downAtS)
  }

  /** Propagation both ways in seconds; 0 before the first ping. */
  get rttS(): number {
    return this.#roundTripsS.length === 0 ? 0 : Math.min(...this.#roundTripsS)
  }

  /** Seconds that the bridge has a frame; 0 before the first. */
  get cloudS(): number {
    return this.#cloudS.value ?? 0
  }

  /** The same of verifications (HAT Eq. 6); of all frames before the first. */
  get verificationS(): number {
    return this.#verificationS.value ?? this.cloudS
  }

  recordRoundTrip(rttS: number): void {
    if (rttS < 0) return
    // Those before it are of another delay.
    if (this.#doubt === 'asked') {
      this.#roundTripsS.length = 0
      this.#doubt = 'answered'
    }
    this.#roundTripsS.push(rttS)
    if (this.#roundTripsS.length > maxRoundTrips) this.#roundTripsS.shift()
  }

  recordExchange(exchange: Exchange): void {
    this.#cloudS.record(exchange.cloudS)
    if (exchange.isVerification) this.#verificationS.record(exchange.cloudS)
    if (exchange.isVerification && this.#isDoubtful(exchange)) this.#skip(exchange)
    else this.#measure(exchange)
  }

  #isDoubtful({ bytesUp, bytesDown, sentS, answeredS, cloudS }: Exchange): boolean {
    const up = this.#up.value
    if (up === undefined || this.#roundTripsS.length === 0) return false
    const expectedS = this.rttS + bytesUp / up + bytesDown / (this.#down.value ?? up)
    const tookS = answeredS - sentS - cloudS
    if (tookS < surprise.ratio * expectedS + surprise.seconds) this.#doubt = 'none'
    else if (this.#doubt === 'none') {
      this.#doubt = 'asked'
      this.#ask()
    }
    return this.#doubt === 'asked'
  }

  #skip({ answeredS }: Exchange): void {
    this.#arrivedS = Math.max(this.#arrivedS, answeredS - this.rttS / 2)
    this.#answeredS = Math.max(this.#answeredS, answeredS)
  }

  /** A probe is answered at once, so it does not measure the bridge's time. */
  recordProbe(exchange: Omit<Exchange, 'cloudS'>): void {
    this.#measure({ ...exchange, cloudS: 0 })
  }

  #measure({ bytesUp, bytesDown, sentS, answeredS, cloudS }: Exchange): void {
    // The clock was set back: times before and after that cannot be compared.
    if (answeredS < sentS || answeredS < this.#answeredS) {
      this.#arrivedS = answeredS
      this.#answeredS = answeredS
      return
    }
    const halfS = this.rttS / 2
    const downS = this.#down.value === undefined ? 0 : bytesDown / this.#down.value
    // With an earlier reply still on its way, the start of this reply is unknown.
    const isAlone = sentS >= this.#answeredS
    this.#answeredS = answeredS
    const beganS = Math.max(sentS + halfS, this.#arrivedS)
    const arrivedS = answeredS - halfS - downS - cloudS
    if (bytesUp >= minBytes && bytesUp > bytesDown) {
      this.#up.record(bytesUp / Math.max(arrivedS - beganS, minS))
      this.#upAtS = answeredS
    }
    this.#arrivedS = Math.max(this.#arrivedS, arrivedS)
    if (isAlone && this.#up.value !== undefined && bytesDown >= minBytes) {
      const backS = answeredS - sentS - this.rttS - bytesUp / this.#up.value - cloudS
      this.#down.record(bytesDown / Math.max(backS, minS))
      this.#downAtS = answeredS
    }
  }
}
