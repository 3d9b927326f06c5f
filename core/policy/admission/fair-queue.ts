import { TokenBucket } from '../quota/token-bucket.ts'

export interface FairQueueLimits {
  /** Admissions per second. */
  readonly perS: number
  /** Longest wait at that rate, in seconds: an item that would wait longer is refused. */
  readonly maxWaitS: number
}

/**
 * What is admitted at once, at most, as seconds of the rate. Whoever admits late, because it is busy with those that it has
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
  /** Network → its items, oldest first. The first network is next. */
  readonly #networks = new Map<string, T[]>()
  #size = 0

  constructor(limits: FairQueueLimits, nowMs: number) {
    this.#limits = limits
    this.#bucket = new TokenBucket({ perS: limits.perS, burst: limits.perS * burstS }, nowMs)
  }

  get size(): number {
    return this.#size
  }

  /** @returns whether the item will be admitted; false: it is refused */
  offer(item: T, network: string): boolean {
    if (this.#size >= this.#limits.perS * (1 + this.#limits.maxWaitS)) return false
    const own = this.#networks.get(network)
    if (own) own.push(item)
    else this.#networks.set(network, [item])
    this.#size += 1
    return true
  }

  /**
   * @param isGone whether an item no longer waits: it takes nobody's place
   * @returns the items that are admitted now
   */
  admit(nowMs: number, isGone: (item: T) => boolean = () => false): T[] {
    const admitted: T[] = []
    while (this.#size > 0 && this.#bucket.spend(0, nowMs) === 0) {
      const item = this.#next()
      if (isGone(item)) continue
      this.#bucket.spend(1, nowMs)
      admitted.push(item)
    }
    return admitted
  }

  #next(): T {
    const [network, items] = this.#networks.entries().next().value!
    this.#networks.delete(network)
    const item = items.shift()!
    if (items.length > 0) this.#networks.set(network, items)
    this.#size -= 1
    return item
  }
}
