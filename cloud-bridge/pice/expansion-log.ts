import type { Store } from '../../core/kit/store/open-database.ts'

/** Where the expansion of an answer's sketch is. */
export interface ExpansionPlace {
  readonly job: string
  /** Index of the sketch in the job. */
  readonly sketch: number
}

/** Which jobs expand which answers, on disk, so that an answer that outlives the bridge finds what has been expanded for it. */
export class ExpansionLog {
  readonly #add
  readonly #places
  readonly #jobs
  readonly #prune
  readonly #store: Store

  /** @param store of `openPiceStore` */
  constructor(store: Store) {
    this.#store = store
    this.#add = store.prepare<[string, string, number, number]>('INSERT OR REPLACE INTO expansion_jobs VALUES (?, ?, ?, ?)')
    this.#places = store.prepare<[string], ExpansionPlace>(
      'SELECT job, sketch FROM expansion_jobs WHERE expansion = ? ORDER BY at_ms',
    )
    this.#jobs = store.prepare<[], string>('SELECT DISTINCT job FROM expansion_jobs').pluck()
    this.#prune = store.prepare<[number]>('DELETE FROM expansion_jobs WHERE at_ms < ?')
  }

  /** @param expansions ids of the sketches of the job, in order. @param nowMs wall clock */
  add(job: string, expansions: readonly string[], nowMs: number): void {
    this.#store.transaction(() => {
      for (const [sketch, id] of expansions.entries()) this.#add.run(id, job, sketch, Math.round(nowMs))
    })()
  }

  /** The oldest first. */
  placesOf(expansion: string): ExpansionPlace[] {
    return this.#places.all(expansion)
  }

  jobs(): string[] {
    return this.#jobs.all()
  }

  /** @param beforeMs wall clock */
  deleteOlder(beforeMs: number): void {
    this.#prune.run(Math.round(beforeMs))
  }
}
