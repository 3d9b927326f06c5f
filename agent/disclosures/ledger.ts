import type { Logger } from '../../core/kit/base/logger.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { openReplaceable } from '../../core/kit/store/open-replaceable.ts'
import { usedBytesOf } from '../../core/kit/store/used-bytes.ts'
import { Disclosure } from '../../core/wire/protocol/disclosures.ts'

/** A migration. `body`: the other fields of an entry, as JSON. */
export const disclosureTables = `CREATE TABLE disclosures (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  answer INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT`

/**
 * Its commits survive a kill of the process, which is what must not hide a disclosure. A power cut may cost the last of them: a wait
 * for the disk before each private answer would delay its first token.
 * @throws BrimError STORE_FAILED
 */
export const openDisclosureDatabase = (path: string, logger: Logger): Store =>
  openReplaceable(path, [disclosureTables], (store) => store.prepare('SELECT max(answer) FROM disclosures').all(), logger)

/** An entry that is being made. Mutable; it gets its id when it is stored. */
export type DisclosureEntry = Omit<Disclosure, 'id' | 'at'> & { readonly atMs: number; id?: number }

/** Entries that are kept in memory while the disk stores none. */
const maxUnstored = 1_000

/** What has left the device, on disk: sizes and destinations, never text. Bounded by bytes and age; the oldest entries are dropped. */
export class DisclosureLedger {
  readonly #store: Store
  readonly #limits: { readonly maxBytes: number; readonly maxAgeMs: number }
  readonly #logger: Logger
  readonly #statements
  readonly #usedBytes: () => number
  /** Entries whose last change is not on disk. */
  readonly #unstored = new Set<DisclosureEntry>()
  #failure: string | undefined
  #lastAnswer: number
  /** Time of day. */
  readonly nowMs: () => number

  /** @param store has `disclosureTables` */
  constructor(store: Store, limits: { maxBytes: number; maxAgeMs: number }, logger: Logger, nowMs = Date.now) {
    this.#store = store
    this.#limits = limits
    this.#logger = logger
    this.nowMs = nowMs
    this.#usedBytes = usedBytesOf(store)
    this.#statements = {
      insert: store.prepare('INSERT INTO disclosures (answer, at_ms, state, body) VALUES (?, ?, ?, ?)'),
      update: store.prepare('UPDATE disclosures SET (answer, at_ms, state, body) = (?, ?, ?, ?) WHERE id = ?'),
      delete: store.prepare<[number]>('DELETE FROM disclosures WHERE id = ?'),
      oldest: store.prepare<[], { id: number; at_ms: number }>('SELECT id, at_ms FROM disclosures ORDER BY id LIMIT 1'),
      list: store.prepare<[number, number, number], { id: number; answer: number; at_ms: number; state: string; body: string }>(
        'SELECT * FROM disclosures WHERE id > ? AND at_ms >= ? ORDER BY id DESC LIMIT ?',
      ),
    }
    this.#lastAnswer = store.prepare<[], number | null>('SELECT max(answer) FROM disclosures').pluck().get() ?? 0
    // The agent was killed during them. On a full disk they stay open until the next start.
    this.#tryWrite(() => store.exec("UPDATE disclosures SET state = 'interrupted' WHERE state = 'open'"))
  }

  nextAnswer(): number {
    this.#lastAnswer += 1
    return this.#lastAnswer
  }

  get recording(): { readonly failure: string | null; readonly unstored: number } {
    return { failure: this.#failure ?? null, unstored: this.#unstored.size }
  }

  /** Stores an entry, or its change, and those that were not stored before. @returns whether the disk has it */
  store(entry: DisclosureEntry): boolean {
    this.#unstored.add(entry)
    const ids = new Map<DisclosureEntry, number>()
    const isStored = this.#tryWrite(() => {
      for (const each of this.#unstored) ids.set(each, this.#put(each))
      this.#dropOld()
    })
    if (isStored) {
      for (const [each, id] of ids) each.id = id
      this.#unstored.clear()
    } else if (this.#unstored.size > maxUnstored) this.forget([...this.#unstored][0]!)
    return isStored
  }

  /** What was not stored is not stored later. */
  forget(entry: DisclosureEntry): void {
    this.#unstored.delete(entry)
  }

  /** The last entries, in their order. @param after id @throws what SQLite throws */
  list({ after = 0, sinceMs = 0, limit }: { after?: number; sinceMs?: number; limit: number }): Disclosure[] {
    const rows = this.#statements.list.all(after, sinceMs, limit).reverse()
    return rows.map(({ at_ms, body, ...row }) =>
      Disclosure.parse({ ...row, at: new Date(at_ms).toISOString(), ...(JSON.parse(body) as object) }),
    )
  }

  #put({ id, answer, atMs, state, ...body }: DisclosureEntry): number {
    const row = [answer, atMs, state, JSON.stringify(body)]
    if (id === undefined) return Number(this.#statements.insert.run(...row).lastInsertRowid)
    this.#statements.update.run(...row, id)
    return id
  }

  #dropOld(): void {
    const { maxAgeMs, maxBytes } = this.#limits
    const minAtMs = this.nowMs() - maxAgeMs
    for (let oldest = this.#statements.oldest.get(); oldest; oldest = this.#statements.oldest.get()) {
      if (oldest.at_ms >= minAtMs && this.#usedBytes() <= maxBytes) return
      this.#statements.delete.run(oldest.id)
    }
  }

  /** Logs the first of several failures in a row. */
  #tryWrite(work: () => void): boolean {
    try {
      this.#store.transaction(work).immediate()
      if (this.#failure !== undefined) this.#logger.warn('disclosures are stored again')
      this.#failure = undefined
      return true
    } catch (err) {
      if (this.#failure === undefined) this.#logger.error({ err }, 'disclosures not stored: answers that show text are refused')
      this.#failure = err instanceof Error ? err.message : String(err)
      return false
    }
  }
}
