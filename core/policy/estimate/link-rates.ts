import { smooth } from './ewma.ts'

/** A frame and its answer, as the device sees them; times of the device's clock. */
export interface Exchange {
  readonly bytesUp: number
  readonly bytesDown: number
  readonly sentS: number
  readonly answeredS: number
  /** That the bridge had the frame before it answered: waiting and computing. */
  readonly cloudS: number
}

/** Smaller transfers say more of the clocks than of the link. */
const leastBytes = 2048
/** Round trips remembered; the shortest of them had no queue before it. */
const pingsKept = 8
/** Nothing is faster than a timer can see. */
const leastS = 1e-4

/**
 * β_up, β_down and the round trip of a device's link, measured from its real frames (HAT 'State monitoring'): a frame's
 * upload ends where its answer came, less what the bridge and the way back took, and begins where it was sent or the
 * frame before it had arrived.
 */
export class LinkRates {
  #up: number | undefined
  #down: number | undefined
  #upAtS: number | undefined
  #downAtS: number | undefined
  readonly #pings: number[] = []
  /** When the last frame known to have arrived did so, as the bridge's end of the link sees it. */
  #arrivedS = Number.NEGATIVE_INFINITY
  #answeredS = Number.NEGATIVE_INFINITY
  #cloudS: number | undefined

  /** Bytes per second; undefined before the first frame that is large enough. */
  get upBytesPerS(): number | undefined {
    return this.#up
  }

  get downBytesPerS(): number | undefined {
    return this.#down
  }

  /** When the older of the two was measured, by the device's clock; undefined while one of them is unknown. */
  get measuredS(): number | undefined {
    return this.#upAtS === undefined || this.#downAtS === undefined ? undefined : Math.min(this.#upAtS, this.#downAtS)
  }

  /** Propagation both ways in seconds; 0 before the first ping. */
  get rttS(): number {
    return this.#pings.length === 0 ? 0 : Math.min(...this.#pings)
  }

  /** What the bridge has a frame for, in seconds; 0 before the first. */
  get cloudS(): number {
    return this.#cloudS ?? 0
  }

  pinged(rttS: number): void {
    if (rttS < 0) return
    this.#pings.push(rttS)
    if (this.#pings.length > pingsKept) this.#pings.shift()
  }

  answered(exchange: Exchange): void {
    this.#cloudS = smooth(this.#cloudS, exchange.cloudS)
    this.#measure(exchange)
  }

  /** A probe: answered at once, so it says nothing of what the bridge has a frame for. */
  probed(exchange: Omit<Exchange, 'cloudS'>): void {
    this.#measure({ ...exchange, cloudS: 0 })
  }

  #measure({ bytesUp, bytesDown, sentS, answeredS, cloudS }: Exchange): void {
    // The clock was set back: no time before that says anything of a time after it.
    if (answeredS < sentS || answeredS < this.#answeredS) {
      this.#arrivedS = answeredS
      this.#answeredS = answeredS
      return
    }
    const halfS = this.rttS / 2
    const downS = this.#down === undefined ? 0 : bytesDown / this.#down
    // Sent while an earlier answer was still under way: where the way back began is not known.
    const alone = sentS >= this.#answeredS
    this.#answeredS = answeredS
    const beganS = Math.max(sentS + halfS, this.#arrivedS)
    const arrivedS = answeredS - halfS - downS - cloudS
    if (bytesUp >= leastBytes && bytesUp > bytesDown) {
      this.#up = smooth(this.#up, bytesUp / Math.max(arrivedS - beganS, leastS))
      this.#upAtS = answeredS
    }
    this.#arrivedS = Math.max(this.#arrivedS, arrivedS)
    if (alone && this.#up !== undefined && bytesDown >= leastBytes) {
      const backS = answeredS - sentS - this.rttS - bytesUp / this.#up - cloudS
      this.#down = smooth(this.#down, bytesDown / Math.max(backS, leastS))
      this.#downAtS = answeredS
    }
  }
}
