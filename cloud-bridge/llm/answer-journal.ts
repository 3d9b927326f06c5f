import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { sampledWarnings, type Warn } from '../../core/kit/base/sampled-warnings.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'

/** Migrations. */
export const answerTables = [
  `CREATE TABLE answers (
     id TEXT PRIMARY KEY,
     client TEXT NOT NULL,
     model TEXT NOT NULL,
     request TEXT NOT NULL,
     detached_ms REAL
   ) STRICT;
   CREATE TABLE deltas (
     answer TEXT NOT NULL REFERENCES answers (id) ON DELETE CASCADE,
     at INTEGER NOT NULL,
     delta TEXT NOT NULL,
     PRIMARY KEY (answer, at)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX answers_detached ON answers (detached_ms) WHERE detached_ms IS NOT NULL`,
  // Their requests have another form.
  'DELETE FROM answers',
]

/** @typeParam Request JSON from which the answer can be made again */
export interface JournalEntry<Request> {
  readonly modelId: string
  readonly request: Request
  /** What became certain, one after the other: JSON of the endpoint that makes the answer. */
  readonly records: readonly object[]
}

export interface AnswerJournalOptions {
  readonly stateDir: string
  /** Answers of other models are deleted. */
  readonly modelIds: readonly string[]
  /** An answer without a connection is deleted after this long. */
  readonly graceMs: number
  /** Answers without a connection, at most; beyond it the oldest are deleted. */
  readonly maxDetached: number
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * The answers that are being sent, and for a while those whose connection has ended, in a database of their own. It survives
 * the end of the process, but costs no synchronisation with the disk. Where it cannot be written, answers go on and cannot be
 * resumed; where it cannot be read, it is replaced.
 */
export class AnswerJournal<Request> {
  readonly #store: Store
  readonly #options: AnswerJournalOptions
  readonly #warn: Warn
  readonly #insert
  readonly #append
  readonly #detach
  readonly #deleteOldest
  readonly #deleteExpired
  readonly #request
  readonly #deltas

  /** The connections of the answers that an earlier process left end now. @throws BrimError STORE_FAILED */
  constructor(options: AnswerJournalOptions) {
    const { stateDir, modelIds, clock, logger } = options
    this.#options = options
    this.#warn = sampledWarnings(logger, clock)
    const store = openReadable(join(stateDir, 'answers.sqlite'), this.#warn)
    this.#store = store
    // Prompts and answers do not stay in freed pages.
    store.pragma('secure_delete = ON')
    store.prepare('DELETE FROM answers WHERE model NOT IN (SELECT value FROM json_each(?))').run(JSON.stringify(modelIds))
    store.prepare('UPDATE answers SET detached_ms = ?').run(clock.nowMs())
    this.#insert = store.prepare<[string, string, string, string]>(
      'INSERT INTO answers (id, client, model, request) VALUES (?, ?, ?, ?)',
    )
    this.#append = store.prepare<[string, number, string]>('INSERT INTO deltas (answer, at, delta) VALUES (?, ?, ?)')
    this.#detach = store.prepare<[number | null, string]>('UPDATE answers SET detached_ms = ? WHERE id = ?')
    this.#deleteOldest = store.prepare<[number]>(
      `DELETE FROM answers WHERE id IN (
         SELECT id FROM answers WHERE detached_ms IS NOT NULL ORDER BY detached_ms DESC LIMIT -1 OFFSET ?
       )`,
    )
    this.#deleteExpired = store.prepare<[number]>('DELETE FROM answers WHERE detached_ms <= ?')
    this.#request = store.prepare<[string, string], { modelId: string; request: string }>(
      'SELECT model AS modelId, request FROM answers WHERE id = ? AND client = ?',
    )
    this.#deltas = store.prepare<[string], { at: number; delta: string }>(
      'SELECT at, delta FROM deltas WHERE answer = ? ORDER BY at',
    )
  }

  /** @param modelId of the model that answers */
  begin(id: string, client: string, modelId: string, request: Request): void {
    this.#write(() => this.#insert.run(id, client, modelId, JSON.stringify(request)))
  }

  /** @param at index of the record in the answer */
  append(id: string, at: number, record: object): void {
    this.#write(() => this.#append.run(id, at, JSON.stringify(record)))
  }

  /** Its connection has ended. Even a complete answer may not have reached its client: the system sends the last of it. */
  detach(id: string): void {
    this.#write(() => {
      this.#detach.run(this.#options.clock.nowMs(), id)
      this.#deleteOldest.run(this.#options.maxDetached)
    })
  }

  /** Its client is back. @returns undefined where there is no such answer of this client */
  resume(id: string, client: string): JournalEntry<Request> | undefined {
    this.expire()
    try {
      const row = this.#request.get(id, client)
      if (!row) return undefined
      this.#detach.run(null, id)
      return { modelId: row.modelId, request: JSON.parse(row.request), records: this.#recordsOf(id) }
    } catch (err) {
      this.#warn({ err }, 'an answer cannot be read from the journal')
      return undefined
    }
  }

  /** Deletes the answers that have waited long enough. */
  expire(): void {
    const { clock, graceMs } = this.#options
    this.#write(() => this.#deleteExpired.run(clock.nowMs() - graceMs))
  }

  close(): void {
    this.#store.close()
  }

  /** Those before the first gap: a write may have failed. */
  #recordsOf(id: string): readonly object[] {
    const records: object[] = []
    for (const { at, delta } of this.#deltas.all(id)) {
      if (at !== records.length) break
      records.push(JSON.parse(delta) as object)
    }
    return records
  }

  #write(write: () => void): void {
    if (!this.#store.open) return
    try {
      write()
    } catch (err) {
      this.#warn({ err }, 'an answer was not journalled: it cannot be resumed')
    }
  }
}

/** What it holds serves for a minute only: a file that is broken, or of a newer release, is replaced. @throws BrimError STORE_FAILED */
function openReadable(path: string, warn: Warn): Store {
  try {
    return openDatabase(path, answerTables, 'NORMAL')
  } catch (err) {
    warn({ err }, 'the journal of answers cannot be read: it is replaced')
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
    return openDatabase(path, answerTables, 'NORMAL')
  }
}
