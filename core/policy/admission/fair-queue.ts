import { RoundRobin } from '../fairness/round-robin.ts'
import { TokenBucket } from '../quota/token-bucket.ts'

export interface FairQueueLimits {
  /** Admissions per second. */
  readonly perS: number
  /** Longest wait, in seconds, about: an item that would wait longer is refused. */
  readonly maxWaitS: number
}

interface Waiting<T> {
  readonly item: T
  readonly sinceMs: number
}

/**
 * The most that is admitted at once, as seconds of the rate. A bridge that admits late, because it is busy with those that it has
 * admitted, thereby admits fewer.
 */
const burstS = 0.05

/**
 * Admits items at a bounded rate. Those that must wait take turns by network, so that a network that sends many delays itself.
 * Mutable; the time is passed in.
 */
export class FairQueue<T> {
  readonly #limits: FairQueueLimits
  readonly #bucket: TokenBucket
  readonly #waiting = new RoundRobin<Waiting<T>>()
  /** Of the item that was admitted last: those that come now will wait about as long. */
  #waitedMs = 0

  constructor(limits: FairQueueLimits, nowMs: number) {
    this.#limits = limits
    this.#bucket = new TokenBucket({ perS: limits.perS, burst: limits.perS * burstS }, nowMs)
  }

  get size(): number {
    return this.#waiting.size
  }

  /** @returns whether the item will be admitted; false: it is refused */
  offer(item: T, network: string, nowMs: number): boolean {
    const { perS, maxWaitS } = this.#limits
    const isSlow = this.size > 0 && this.#waitedMs > 1_000 * (1 + maxWaitS)
    if (isSlow || this.size >= perS * (1 + maxWaitS)) return false
    this.#waiting.add(network, { item, sinceMs: nowMs })
    return true
  }

  /**
   * @param isGone whether an item no longer waits: it is passed over
   * @returns the items that are admitted now
   */
  admit(nowMs: number, isGone: (item: T) => boolean = () => false): T[] {
    const admitted: T[] = []
    while (this.size > 0 && this.#bucket.spend(0, nowMs) === 0) {
      const { item, sinceMs } = this.#waiting.next()!
      this.#waitedMs = nowMs - sinceMs
      if (isGone(item)) continue
      this.#bucket.spend(1, nowMs)
      admitted.push(item)
    }
    return admitted
  }
}
