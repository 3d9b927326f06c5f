export interface CountWindowLimits {
  readonly windowMs: number
  /** Events of one key within one window. */
  readonly max: number
  /** Beyond this many keys all are forgotten, so memory is bounded. */
  readonly maxKeys: number
}

/**
 * Counts events by key in fixed windows, each of which begins with a key's first event. Mutable; the time is passed in.
 */
export class CountWindow {
  readonly #limits: CountWindowLimits
  readonly #windows = new Map<string, { readonly sinceMs: number; count: number }>()

  constructor(limits: CountWindowLimits) {
    this.#limits = limits
  }

  /** Whether the key has had `max` events, or more, in its window. */
  isFull(key: string, nowMs: number): boolean {
    return (this.#current(key, nowMs)?.count ?? 0) >= this.#limits.max
  }

  add(key: string, nowMs: number): void {
    const current = this.#current(key, nowMs)
    if (current) {
      current.count += 1
      return
    }
    if (this.#windows.size >= this.#limits.maxKeys) this.#windows.clear()
    this.#windows.set(key, { sinceMs: nowMs, count: 1 })
  }

  /** Adds an event unless the key has had `max` of them. @returns whether it was added */
  take(key: string, nowMs: number): boolean {
    if (this.isFull(key, nowMs)) return false
    this.add(key, nowMs)
    return true
  }

  #current(key: string, nowMs: number) {
    const found = this.#windows.get(key)
    return found && nowMs - found.sinceMs < this.#limits.windowMs ? found : undefined
  }
}
