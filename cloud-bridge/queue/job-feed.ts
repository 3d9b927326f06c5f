/** Notifies the clients that watch a job. */
export class JobFeed {
  readonly #watchers = new Map<string, Set<() => void>>()

  publish(id: string): void {
    for (const notify of [...(this.#watchers.get(id) ?? [])]) notify()
  }

  /** @returns a function that ends the subscription */
  subscribe(id: string, notify: () => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set()
    this.#watchers.set(id, watchers.add(notify))
    return () => {
      watchers.delete(notify)
      if (watchers.size === 0) this.#watchers.delete(id)
    }
  }
}
