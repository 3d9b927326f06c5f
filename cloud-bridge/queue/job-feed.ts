import type { JobChange } from './job-database.ts'

/** Tells those that watch a job how it changes. */
export class JobFeed {
  readonly #watchers = new Map<string, Set<(change: JobChange) => void>>()

  publish(change: JobChange): void {
    for (const notify of [...(this.#watchers.get(change.job) ?? [])]) notify(change)
  }

  /** @returns a function that ends the subscription */
  subscribe(id: string, notify: (change: JobChange) => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set()
    this.#watchers.set(id, watchers.add(notify))
    return () => {
      watchers.delete(notify)
      if (watchers.size === 0) this.#watchers.delete(id)
    }
  }
}
