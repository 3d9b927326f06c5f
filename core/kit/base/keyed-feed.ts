type Notify<Change> = (key: string, change: Change) => void

/** Tells subscribers what has changed: of one key, such as a device or a job, or of all. */
export class KeyedFeed<Change> {
  readonly #all = new Set<Notify<Change>>()
  /** By key, so that a change costs nothing to subscribers of another one. */
  readonly #byKey = new Map<string, Set<Notify<Change>>>()

  publish(key: string, change: Change): void {
    for (const notify of [...this.#all, ...(this.#byKey.get(key) ?? [])]) notify(key, change)
  }

  /**
   * @param key absent: every one
   * @returns a function that ends the subscription
   */
  subscribe(notify: Notify<Change>, key?: string): () => void {
    if (key === undefined) {
      this.#all.add(notify)
      return () => this.#all.delete(notify)
    }
    const own = this.#byKey.get(key) ?? new Set()
    this.#byKey.set(key, own.add(notify))
    return () => {
      own.delete(notify)
      if (own.size === 0 && this.#byKey.get(key) === own) this.#byKey.delete(key)
    }
  }
}
