import { rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import {
  ageMs,
  type DropReason,
  type Moment,
  mendedWallMs,
  nextDrop,
  type SpooledLeaf,
  type SpoolLimits,
  type SpoolQueue,
  spoolPriorities,
} from '../../core/policy/telemetry/spool.ts'
import type { DeviceCondition } from '../../core/protocol/device-condition.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'

/** A migration: what waits, and how much of it was given up. */
export const spoolTables = `CREATE TABLE spool (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  leaf TEXT NOT NULL,
  wall_ms INTEGER NOT NULL,
  is_set INTEGER NOT NULL,
  birth INTEGER NOT NULL,
  monotonic_ms REAL NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX spool_leaf ON spool (leaf, n);
CREATE INDEX spool_unset ON spool (birth, n) WHERE is_set = 0;
CREATE TABLE dropped (reason TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT;`

/**
 * Opens what waits. Where the disk has damaged it, it begins anew: an agent without its telemetry's past is worth more than none.
 * @throws BrimError STORE_FAILED
 */
export function openSpoolDatabase(path: string, logger: Logger): Store {
  const open = () => openDatabase(path, [spoolTables], 'NORMAL')
  let store: Store | undefined
  try {
    store = open()
    // Reads as much as a spool does at its start.
    store.prepare('SELECT leaf, count(*) FROM spool GROUP BY leaf').all()
    return store
  } catch (err) {
    store?.close()
    const cause = err instanceof BrimError ? err.cause : err
    if (!(cause instanceof Database.SqliteError && damaged.some((code) => cause.code.startsWith(code)))) throw err
    logger.warn({ err }, 'the spool is damaged and begins anew')
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
    return open()
  }
}

const damaged = ['SQLITE_CORRUPT', 'SQLITE_NOTADB']

export interface SpoolOptions {
  /** Must have had `spoolTables`. */
  readonly store: Store
  readonly birth: number
  readonly limits: SpoolLimits
  readonly clock: Clock
  /** The time of day, and whether anybody has told it. */
  readonly wall: () => { readonly ms: number; readonly isSet: boolean }
  readonly logger: Logger
}

/** A message as it will be said. */
export interface SpooledMessage {
  readonly n: number
  /** JSON. */
  readonly text: string
}

interface Row {
  readonly n: number
  readonly leaf: SpooledLeaf
  readonly wall_ms: number
  readonly is_set: number
  readonly birth: number
  readonly monotonic_ms: number
  readonly body: string
}

/** What could not be said, on disk, bounded. Its times are those of the moment that it was put in. */
export class Spool {
  readonly #options: SpoolOptions
  readonly #statements
  #counts: ReadonlyMap<SpooledLeaf, number> = new Map()
  readonly #dropped: Record<DropReason, number> = { full: 0, old: 0, unstored: 0 }
  /** Those of this start; of what an earlier one left nobody will ever know the time. */
  #hasUnset = false
  #isFailing = false
  /** What failed has left the counts as they were before it was undone. */
  #mustLoad = false
  #bytes = 0

  constructor(options: SpoolOptions) {
    const { store } = options
    this.#options = options
    this.#statements = {
      insert: store.prepare('INSERT INTO spool (leaf, wall_ms, is_set, birth, monotonic_ms, body) VALUES (?, ?, ?, ?, ?, ?)'),
      oldest: store.prepare<[string], Row>('SELECT * FROM spool WHERE leaf = ? ORDER BY n LIMIT 1'),
      delete: store.prepare('DELETE FROM spool WHERE n = ?'),
      counts: store.prepare<[], { leaf: SpooledLeaf; count: number }>('SELECT leaf, count(*) AS count FROM spool GROUP BY leaf'),
      dropped: store.prepare<[], { reason: DropReason; count: number }>('SELECT reason, count FROM dropped'),
      unset: store.prepare<[number], Row>('SELECT * FROM spool WHERE is_set = 0 AND birth = ?'),
      mend: store.prepare('UPDATE spool SET wall_ms = ?, is_set = 1 WHERE n = ?'),
      used: store
        .prepare<[], number>(
          `SELECT (pages.page_count - free.freelist_count) * size.page_size
           FROM pragma_page_count() pages, pragma_freelist_count() free, pragma_page_size() size`,
        )
        .pluck(),
      drop: store.prepare(
        'INSERT INTO dropped (reason, count) VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET count = excluded.count',
      ),
    }
    this.#load()
  }

  /** What waits, by topic. */
  get shelves(): Pick<SpoolQueue, 'leaf' | 'count'>[] {
    return leaves.map((leaf) => ({ leaf, count: this.#counts.get(leaf) ?? 0 }))
  }

  get figures(): NonNullable<DeviceCondition['spool']> {
    const waiting = this.shelves.reduce((sum, { count }) => sum + count, 0)
    return { waiting, bytes: this.#bytes, dropped: { ...this.#dropped } }
  }

  /**
   * Keeps what cannot be said now. Never throws: a disk that is full costs the message, which is counted.
   * @param body of the message, without its version, time and birth
   */
  put(leaf: SpooledLeaf, body: object): void {
    const now = this.#now()
    const isKept = this.#guarded('a message could not be spooled', () => {
      this.#mend(now)
      const { insert } = this.#statements
      insert.run(leaf, Math.round(now.wallMs), Number(now.isSet), now.birth, now.monotonicMs, JSON.stringify(body))
      if (!now.isSet) this.#hasUnset = true
      this.#count(leaf, 1)
      this.#makeRoom(now)
      // What the disk did not take before can be written down now.
      this.#store('unstored')
      return true
    })
    if (!isKept) this.#dropped.unstored++
  }

  /** The oldest of a shelf, as it is to be said; undefined: there is none, or it cannot be read. */
  next(leaf: SpooledLeaf): SpooledMessage | undefined {
    const now = this.#now()
    return this.#guarded('the spool cannot be read', () => {
      this.#mend(now)
      this.#makeRoom(now)
      const row = this.#statements.oldest.get(leaf)
      if (!row) return undefined
      const { n, wall_ms, is_set, birth, body } = row
      const measured = objectIn(body)
      if (!measured) {
        // Damaged on the disk: it must not stand in the way of all that came after it.
        this.#remove(leaf, n)
        this.#dropped.unstored++
        this.#store('unstored')
        return undefined
      }
      const at = new Date(wall_ms).toISOString()
      const said = { v: 1, at, birth, clockIsSet: is_set === 1, ...measured, replayed: true }
      return { n, text: JSON.stringify(said) }
    })
  }

  /** It has been said. @returns false where the disk did not take that: it is still there */
  done(leaf: SpooledLeaf, n: number): boolean {
    const isGone = this.#guarded('what was replayed is still in the spool', () => {
      this.#remove(leaf, n)
      return true
    })
    return isGone ?? false
  }

  #remove(leaf: SpooledLeaf, n: number): void {
    const { changes } = this.#statements.delete.run(n)
    this.#count(leaf, -changes)
  }

  /** Times of this start's messages, now that the time is known: after the next start it would be too late. */
  #mend(now: Moment): void {
    if (!this.#hasUnset || !now.isSet) return
    for (const row of this.#statements.unset.all(now.birth)) {
      const wallMs = mendedWallMs(momentOf(row), now)
      if (wallMs !== undefined) this.#statements.mend.run(wallMs, row.n)
    }
    this.#hasUnset = false
  }

  #makeRoom(now: Moment): void {
    for (;;) {
      const oldest = leaves.map((leaf) => this.#statements.oldest.get(leaf))
      const shelves = leaves.map((leaf, index) => {
        const row = oldest[index]
        return { leaf, count: this.#counts.get(leaf) ?? 0, oldestAgeMs: row ? ageMs(momentOf(row), now) : null }
      })
      const drop = nextDrop(shelves, this.#usedBytes, this.#options.limits)
      const victim = drop && oldest.find((row) => row?.leaf === drop.leaf)
      if (!drop || !victim) return
      this.#remove(drop.leaf, victim.n)
      this.#dropped[drop.reason]++
      this.#store(drop.reason)
    }
  }

  #store(reason: DropReason): void {
    this.#statements.drop.run(reason, this.#dropped[reason])
  }

  #count(leaf: SpooledLeaf, more: number): void {
    this.#counts = new Map([...this.#counts, [leaf, (this.#counts.get(leaf) ?? 0) + more]])
  }

  get #usedBytes(): number {
    return this.#statements.used.get() ?? 0
  }

  /** All of it or nothing; what fails is told of once, until something succeeds. */
  #guarded<T>(message: string, work: () => T): T | undefined {
    const { store, logger } = this.#options
    try {
      if (this.#mustLoad) this.#load()
      const result = store
        .transaction(() => {
          const done = work()
          this.#bytes = this.#usedBytes
          return done
        })
        .immediate()
      this.#isFailing = false
      return result
    } catch (err) {
      if (!this.#isFailing) logger.warn({ err }, message)
      this.#isFailing = true
      // With the rest, times that were mended have been undone.
      this.#mustLoad = true
      this.#hasUnset = true
      return undefined
    }
  }

  /** As it stands on disk; what the disk did not take is known here alone. */
  #load(): void {
    this.#mustLoad = false
    this.#bytes = this.#usedBytes
    const { counts, dropped } = this.#statements
    this.#counts = new Map(counts.all().map(({ leaf, count }) => [leaf, count]))
    for (const { reason, count } of dropped.all())
      this.#dropped[reason] = reason === 'unstored' ? Math.max(count, this.#dropped.unstored) : count
  }

  #now(): Moment {
    const { clock, birth, wall } = this.#options
    const { ms, isSet } = wall()
    return { wallMs: ms, isSet, birth, monotonicMs: clock.nowMs() }
  }
}

function objectIn(json: string): object | undefined {
  try {
    return JSON.parse(json) as object
  } catch {
    return undefined
  }
}

const leaves = Object.keys(spoolPriorities) as SpooledLeaf[]

const momentOf = ({ wall_ms, is_set, birth, monotonic_ms }: Row): Moment => ({
  wallMs: wall_ms,
  isSet: is_set === 1,
  birth,
  monotonicMs: monotonic_ms,
})
