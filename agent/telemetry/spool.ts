import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { openReplaceable } from '../../core/kit/store/open-replaceable.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { usedBytesOf } from '../../core/kit/store/used-bytes.ts'
import {
  ageMs,
  completedWallMs,
  type DropReason,
  type Moment,
  nextDrop,
  type SpooledLeaf,
  type SpoolLimits,
  type SpoolQueue,
  spoolPriorities,
} from '../../core/policy/telemetry/spool.ts'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'

/** A migration: the spooled messages, and how many were dropped. */
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

/** @throws BrimError STORE_FAILED */
export const openSpoolDatabase = (path: string, logger: Logger): Store =>
  openReplaceable(path, [spoolTables], (store) => store.prepare('SELECT leaf, count(*) FROM spool GROUP BY leaf').all(), logger)

export interface SpoolOptions {
  /** Must have had `spoolTables`. */
  readonly store: Store
  readonly birth: number
  readonly limits: SpoolLimits
  readonly clock: Clock
  /** Time of day, and whether the device's clock is set. */
  readonly wall: () => { readonly ms: number; readonly isSet: boolean }
  readonly logger: Logger
}

/** A message ready to be sent. */
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

/**
 * Messages that no bridge could receive, on disk, bounded by bytes and age. Each keeps the time at which it was put in.
 */
export class Spool {
  readonly #options: SpoolOptions
  readonly #statements
  readonly #usedBytes: () => number
  #counts: ReadonlyMap<SpooledLeaf, number> = new Map()
  readonly #dropped: Record<DropReason, number> = { full: 0, old: 0, unstored: 0 }
  /** Whether messages of this start lack a time of day. Those of earlier starts can never get one. */
  #hasUnset = false
  #isFailing = false
  /** A transaction was rolled back after it had changed the counts below. */
  #mustLoad = false
  #bytes = 0

  constructor(options: SpoolOptions) {
    const { store } = options
    this.#options = options
    this.#usedBytes = usedBytesOf(store)
    this.#statements = {
      insert: store.prepare('INSERT INTO spool (leaf, wall_ms, is_set, birth, monotonic_ms, body) VALUES (?, ?, ?, ?, ?, ?)'),
      oldest: store.prepare<[string], Row>('SELECT * FROM spool WHERE leaf = ? ORDER BY n LIMIT 1'),
      delete: store.prepare('DELETE FROM spool WHERE n = ?'),
      counts: store.prepare<[], { leaf: SpooledLeaf; count: number }>('SELECT leaf, count(*) AS count FROM spool GROUP BY leaf'),
      dropped: store.prepare<[], { reason: DropReason; count: number }>('SELECT reason, count FROM dropped'),
      unset: store.prepare<[number], Row>('SELECT * FROM spool WHERE is_set = 0 AND birth = ?'),
      setTime: store.prepare('UPDATE spool SET wall_ms = ?, is_set = 1 WHERE n = ?'),
      drop: store.prepare(
        'INSERT INTO dropped (reason, count) VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET count = excluded.count',
      ),
    }
    this.#load()
  }

  /** Number of messages by topic. */
  get queues(): Pick<SpoolQueue, 'leaf' | 'count'>[] {
    return leaves.map((leaf) => ({ leaf, count: this.#counts.get(leaf) ?? 0 }))
  }

  get figures(): NonNullable<DeviceCondition['spool']> {
    const waiting = this.queues.reduce((sum, { count }) => sum + count, 0)
    return { waiting, bytes: this.#bytes, dropped: { ...this.#dropped } }
  }

  /**
   * Spools a message. Never throws: a message that the disk does not store is counted as dropped.
   * @param body the message without version, time and birth
   */
  put(leaf: SpooledLeaf, body: object): void {
    const now = this.#now()
    const isStored = this.#guarded('message not spooled', () => {
      this.#completeTimes(now)
      const { insert } = this.#statements
      insert.run(leaf, Math.round(now.wallMs), Number(now.isSet), now.birth, now.monotonicMs, JSON.stringify(body))
      if (!now.isSet) this.#hasUnset = true
      this.#count(leaf, 1)
      this.#dropExcess(now)
      // The disk works again: the count of messages that it did not store can be stored too.
      this.#storeDropped('unstored')
      return true
    })
    if (!isStored) this.#dropped.unstored++
  }

  /** The oldest message of a queue, as it will be sent; undefined: none, or unreadable. */
  next(leaf: SpooledLeaf): SpooledMessage | undefined {
    const now = this.#now()
    return this.#guarded('spool not readable', () => {
      this.#completeTimes(now)
      this.#dropExcess(now)
      const row = this.#statements.oldest.get(leaf)
      if (!row) return undefined
      const { n, wall_ms, is_set, birth, body } = row
      const fields = storedJson(body) as object | undefined
      if (!fields) {
        // Corrupt: it must not block the messages after it.
        this.#remove(leaf, n)
        this.#dropped.unstored++
        this.#storeDropped('unstored')
        return undefined
      }
      const at = new Date(wall_ms).toISOString()
      const message = { v: 1, at, birth, clockIsSet: is_set === 1, ...fields, replayed: true }
      return { n, text: JSON.stringify(message) }
    })
  }

  /** Deletes a message that was sent. @returns false if the disk failed: the message is still spooled */
  delete(leaf: SpooledLeaf, n: number): boolean {
    const isDeleted = this.#guarded('replayed message not deleted from the spool', () => {
      this.#remove(leaf, n)
      return true
    })
    return isDeleted ?? false
  }

  #remove(leaf: SpooledLeaf, n: number): void {
    const { changes } = this.#statements.delete.run(n)
    this.#count(leaf, -changes)
  }

  /** Completes the times of this start's messages once the clock is set: after a restart it would be too late. */
  #completeTimes(now: Moment): void {
    if (!this.#hasUnset || !now.isSet) return
    for (const row of this.#statements.unset.all(now.birth)) {
      const wallMs = completedWallMs(momentOf(row), now)
      if (wallMs !== undefined) this.#statements.setTime.run(wallMs, row.n)
    }
    this.#hasUnset = false
  }

  #dropExcess(now: Moment): void {
    for (;;) {
      const oldest = leaves.map((leaf) => this.#statements.oldest.get(leaf))
      const queues = leaves.map((leaf, index) => {
        const row = oldest[index]
        return { leaf, count: this.#counts.get(leaf) ?? 0, oldestAgeMs: row ? ageMs(momentOf(row), now) : null }
      })
      const drop = nextDrop(queues, this.#usedBytes(), this.#options.limits)
      const victim = drop && oldest.find((row) => row?.leaf === drop.leaf)
      if (!drop || !victim) return
      this.#remove(drop.leaf, victim.n)
      this.#dropped[drop.reason]++
      this.#storeDropped(drop.reason)
    }
  }

  #storeDropped(reason: DropReason): void {
    this.#statements.drop.run(reason, this.#dropped[reason])
  }

  #count(leaf: SpooledLeaf, more: number): void {
    this.#counts = new Map([...this.#counts, [leaf, (this.#counts.get(leaf) ?? 0) + more]])
  }

  /** Runs `work` in a transaction. Logs the first of several failures in a row. */
  #guarded<T>(message: string, work: () => T): T | undefined {
    const { store, logger } = this.#options
    try {
      if (this.#mustLoad) this.#load()
      const result = store
        .transaction(() => {
          const done = work()
          this.#bytes = this.#usedBytes()
          return done
        })
        .immediate()
      this.#isFailing = false
      return result
    } catch (err) {
      if (!this.#isFailing) logger.warn({ err }, message)
      this.#isFailing = true
      // The rollback has undone completed times too.
      this.#mustLoad = true
      this.#hasUnset = true
      return undefined
    }
  }

  /** Reads the counts. Only this object knows how many messages the disk did not store. */
  #load(): void {
    this.#mustLoad = false
    this.#bytes = this.#usedBytes()
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

const leaves = Object.keys(spoolPriorities) as SpooledLeaf[]

const momentOf = ({ wall_ms, is_set, birth, monotonic_ms }: Row): Moment => ({
  wallMs: wall_ms,
  isSet: is_set === 1,
  birth,
  monotonicMs: monotonic_ms,
})
