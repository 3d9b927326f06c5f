export interface FairQueueLimits {
  /** Admissions per second; as many at once after a pause of a second. */
  readonly perS: number
  /** Longest wait, in seconds: an item that would wait longer is refused. */
  readonly maxWaitS: number
}

/**
 * Admits items at a bounded rate. Those that must wait take turns by network, so that a network that sends many delays itself.
 * Mutable; the time is passed in.
 */
export class FairQueue<T> {
  readonly #limits: FairQueueLimits
  /** Network → its items, oldest first. The first network is next. */
  readonly #networks = new Map<string, T[]>()
  #size = 0
  #credit: number
  #atMs: number

  constructor(limits: FairQueueLimits, nowMs: number) {
    this.#limits = limits
    this.#credit = limits.perS
    this.#atMs = nowMs
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

  /** @returns the items that are admitted now */
  admit(nowMs: number): T[] {
    const { perS } = this.#limits
    this.#credit = Math.min(perS, this.#credit + ((nowMs - this.#atMs) / 1_000) * perS)
    this.#atMs = nowMs
    const admitted: T[] = []
    for (; this.#credit >= 1 && this.#size > 0; this.#credit -= 1) admitted.push(this.#next())
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
