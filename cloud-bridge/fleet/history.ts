import { join } from 'node:path'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { sampledWarnings } from '../../core/kit/base/sampled-warnings.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { openReplaceable } from '../../core/kit/store/open-replaceable.ts'
import type { TelemetrySample } from '../../core/wire/protocol/http/devices.ts'
import type { DeviceTelemetry } from '../../core/wire/protocol/messages.ts'
import { packSample, type Timed, unpackSample } from './packed-sample.ts'
import type { ReadSample } from './telemetry-reader.ts'

/**
 * Migrations. A sample with a `base` is stored as its difference from that row of `bases`, without its time. `at_ms` is the time of the measurement by the device's clock. It is the time of receipt if the device's
 * clock is not set or is far ahead. `heard_ms` is the time of receipt by this bridge's clock. After a crash a device may
 * send a sample twice. `usage` counts the samples of a device that has sent one since this table exists.
 */
export const historyTables = [
  `CREATE TABLE samples (
  n INTEGER PRIMARY KEY,
  device TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  birth INTEGER NOT NULL,
  heard_ms INTEGER NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (device, at_ms, birth)
) STRICT`,
  'CREATE TABLE usage (device TEXT PRIMARY KEY, samples INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID',
  `CREATE TABLE bases (n INTEGER PRIMARY KEY AUTOINCREMENT, device TEXT NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX bases_device ON bases (device);
ALTER TABLE samples ADD COLUMN base INTEGER`,
]

/**
 * A database of its own, without a sync at each commit: telemetry is large and may lose its last samples.
 * @throws BrimError STORE_FAILED
 */
export const openHistoryDatabase = (stateDir: string, logger: Logger): Store =>
  openReplaceable(join(stateDir, 'telemetry.sqlite'), historyTables, readNewest, logger)

function readNewest(store: Store): void {
  store.prepare('SELECT * FROM usage').all()
  for (const table of ['samples', 'bases']) store.prepare(`SELECT * FROM ${table} ORDER BY n DESC LIMIT 1`).get()
}

export interface HistoryQuery {
  /** Samples after this time, the oldest first; absent: the newest samples. */
  readonly sinceMs?: number | undefined
  readonly limit: number
}

export interface History {
  /**
   * Stores a sample. Never throws. Where later samples of the device were measured against this one, they differ least from it:
   * it becomes the base of their rows too.
   */
  add(device: string, sample: ReadSample): void
  /**
   * Samples in order of `at_ms`.
   * @returns `more`: whether the limit cut off others; `nextMs`: the `sinceMs` of the next query
   */
  of(
    device: string,
    query: HistoryQuery,
  ): { readonly samples: TelemetrySample[]; readonly more: boolean; readonly nextMs: number | null }
  /** Deletes the samples of devices that are not `known`. Never throws. */
  forgetExcept(known: (device: string) => boolean): void
  /** Stores the samples that are still in memory. */
  close(): Promise<void>
}

export interface HistoryOptions {
  /** Must have `historyTables`. */
  readonly store: Store
  /** Retained samples of each device; 0: none. */
  readonly maxSamples: number
  /** Of the retained samples of each device. */
  readonly maxDeviceBytes: number
  readonly clock: Clock
  readonly wallMs: () => number
  readonly logger: Logger
}

/** Time that samples are collected for one commit, and their number: more would hold up everything else for too long. */
const batchMs = 500
const batchSamples = 64
/**
 * A sample further ahead of the bridge's clock comes from a wrong clock. By its own time it would stay the newest, and
 * displace all later samples.
 */
const maxAheadMs = 10 * 60_000
/** Samples above the limit that are deleted together, because one deletion costs a search. */
const slack = 64
/** The same for the bytes above the limit, as a share of the samples. */
const byteSlack = 1 / 16
/** What a row takes beside its sample, about: the device's id is in the index too. */
const rowBytes = 128
/** Samples that are stored as differences from one base, at most, and a difference as a share of it. */
const maxPerBase = 1_000
const maxDifference = 1 / 2

/** A sample that waits for the next commit. */
interface Arrived {
  readonly device: string
  readonly atMs: number
  readonly receivedMs: number
  readonly sample: ReadSample
}

interface Row {
  readonly device: string
  readonly atMs: number
  readonly birth: number
  readonly receivedMs: number
  readonly body: string
  readonly base: number | null
}

/** The sample from which the next ones of a device are stored as differences. */
interface Base {
  readonly n: number
  readonly sample: DeviceTelemetry
  readonly bytes: number
  readonly count: number
}

/** What a device has stored. */
interface Usage {
  readonly samples: number
  readonly bytes: number
}

/** The latest samples of every device, on disk: a restart or an outage leaves no gap. */
export function createHistory({ store, maxSamples, maxDeviceBytes, clock, wallMs, logger }: HistoryOptions): History {
  const warn = sampledWarnings(logger, clock)
  const insert = store.prepare<Row>(
    'INSERT OR IGNORE INTO samples (device, at_ms, birth, heard_ms, body, base) VALUES (@device, @atMs, @birth, @receivedMs, @body, @base)',
  )
  const readUsage = store.prepare<[string], Usage>('SELECT samples, bytes FROM usage WHERE device = ?')
  const writeUsage = store.prepare<[string, number, number]>(
    'INSERT OR REPLACE INTO usage (device, samples, bytes) VALUES (?, ?, ?)',
  )
  const sizeOfRow = `octet_length(body) + ${rowBytes}`
  const sizeOf = (table: string) => `(SELECT coalesce(sum(${sizeOfRow}), 0) FROM ${table} WHERE device = @device)`
  const countUsage = store.prepare<{ device: string }, Usage>(
    `SELECT count(*) AS samples, ${sizeOf('samples')} + ${sizeOf('bases')} AS bytes FROM samples WHERE device = @device`,
  )
  const insertBase = store.prepare<[string, string]>('INSERT INTO bases (device, body) VALUES (?, ?)')
  const readBase = store.prepare<[number], string>('SELECT body FROM bases WHERE n = ?').pluck()
  const removeBases = store.prepare<[string]>('DELETE FROM bases WHERE device = ?')
  /** The newest one stays: samples to come may need it. */
  const trimBases = store
    .prepare<{ device: string }, number>(
      `DELETE FROM bases WHERE device = @device AND n < (SELECT max(n) FROM bases WHERE device = @device)
         AND n NOT IN (SELECT base FROM samples WHERE device = @device AND base IS NOT NULL)
       RETURNING ${sizeOfRow}`,
    )
    .pluck()
  const trim = store
    .prepare<[string, number], number>(
      `DELETE FROM samples WHERE n IN (SELECT n FROM samples WHERE device = ? ORDER BY at_ms, birth LIMIT ?)
       RETURNING ${sizeOfRow}`,
    )
    .pluck()
  const after = store.prepare<[string, number, number], Row>(
    'SELECT device, at_ms AS atMs, birth, heard_ms AS receivedMs, body, base FROM samples WHERE device = ? AND at_ms > ? ORDER BY at_ms, birth LIMIT ?',
  )
  const newest = store.prepare<[string, number], Row>(
    'SELECT device, at_ms AS atMs, birth, heard_ms AS receivedMs, body, base FROM samples WHERE device = ? ORDER BY at_ms DESC, birth DESC LIMIT ?',
  )
  const removeAll = store.prepare('DELETE FROM samples WHERE device = ?')
  const nextDevice = store
    .prepare<[string], string>('SELECT device FROM samples WHERE device > ? ORDER BY device LIMIT 1')
    .pluck()
  const removeUsage = store.prepare('DELETE FROM usage WHERE device = ?')
  const usages = new Map<string, Usage>()
  const bases = new Map<string, Base>()
  const stopping = new AbortController()
  let batch: Arrived[] = []
  let flushing: Promise<void> | undefined
  let isFailing = false
  let lastReceiptMs = Number.NEGATIVE_INFINITY

  const write = store.transaction((samples: readonly Arrived[]) => {
    const changed = new Set<string>()
    for (const sample of samples) {
      const { device } = sample
      usages.set(device, usages.get(device) ?? readUsage.get(device) ?? countUsage.get({ device })!)
      insertSample(sample)
      changed.add(device)
    }
    for (const device of changed) {
      const usage = trimmed(device, usages.get(device)!)
      usages.set(device, usage)
      writeUsage.run(device, usage.samples, usage.bytes)
    }
  })

  function insertSample(sample: Arrived): void {
    const { device, atMs, receivedMs } = sample
    const { n, body } = differenceOf(sample) ?? newBase(sample)
    if (insert.run({ device, atMs, birth: sample.sample.telemetry.birth, receivedMs, body, base: n }).changes === 0) return
    countBytes(device, 1, body)
    const base = bases.get(device)!
    bases.set(device, { ...base, count: base.count + 1 })
  }

  /** The sample as a difference from the device's base; undefined: it needs a new base. */
  function differenceOf({
    device,
    sample: { telemetry, isBase, packed },
  }: Arrived): { readonly n: number; readonly body: string } | undefined {
    const base = bases.get(device)
    if (!base || base.count >= maxPerBase || isBase) return undefined
    const difference = packed?.base === base.sample ? packed.difference : packSample(base.sample, telemetry)
    return difference !== undefined && difference.length < base.bytes * maxDifference
      ? { n: base.n, body: difference }
      : undefined
  }

  function newBase({ device, sample: { telemetry } }: Arrived): { readonly n: number; readonly body: string } {
    const body = JSON.stringify({ ...telemetry, v: undefined })
    const n = Number(insertBase.run(device, body).lastInsertRowid)
    countBytes(device, 0, body)
    bases.set(device, { n, sample: telemetry, bytes: body.length, count: 0 })
    return { n, body: '{}' }
  }

  function countBytes(device: string, samples: number, body: string): void {
    const known = usages.get(device)!
    usages.set(device, { samples: known.samples + samples, bytes: known.bytes + Buffer.byteLength(body) + rowBytes })
  }

  /** Deletes the oldest samples of a device that has too many. @returns what is left */
  function trimmed(device: string, usage: Usage): Usage {
    const surplus = usage.samples - maxSamples
    const isLarge = usage.bytes > maxDeviceBytes
    if (surplus < slack && !isLarge) return usage
    const deleted = trim.all(device, Math.max(surplus, isLarge ? Math.ceil(usage.samples * byteSlack) : 0))
    const deletedBytes = [...deleted, ...trimBases.all({ device })].reduce((sum, bytes) => sum + bytes, 0)
    const left = { samples: usage.samples - deleted.length, bytes: usage.bytes - deletedBytes }
    return deleted.length === 0 ? left : trimmed(device, left)
  }

  function flush(): void {
    const samples = batch
    batch = []
    try {
      if (samples.length > 0) write.immediate(samples)
      isFailing = false
    } catch (err) {
      usages.clear()
      bases.clear()
      if (!isFailing) logger.error({ err, samples: samples.length }, 'telemetry not stored')
      isFailing = true
    }
  }

  const flushLater = () =>
    clock
      .sleep(batchMs, stopping.signal)
      .catch(() => {})
      .then(() => {
        flushing = undefined
        flush()
      })

  /** A distinct time of receipt for each sample: those that arrive together, as after an outage, must not count as one. */
  function receiptTime(receivedMs: number): number {
    const isLater = receivedMs > lastReceiptMs || receivedMs < lastReceiptMs - maxAheadMs
    lastReceiptMs = isLater ? receivedMs : lastReceiptMs + 1
    return lastReceiptMs
  }

  function samplesOf(rows: readonly Row[]): TelemetrySample[] {
    const read = new Map<number, Timed>()
    const baseOf = (n: number) => {
      const base = read.get(n) ?? (JSON.parse(readBase.get(n)!) as Timed)
      read.set(n, base)
      return base
    }
    return rows.flatMap(({ body, base, receivedMs, ...row }) => {
      try {
        const sample = base === null ? JSON.parse(body) : body === '{}' ? baseOf(base) : unpackSample(baseOf(base), body)
        return [{ ...(sample as Omit<DeviceTelemetry, 'v'>), heardAt: new Date(receivedMs).toISOString() }]
      } catch (err) {
        warn({ err, device: row.device }, 'stored sample damaged: left out')
        return []
      }
    })
  }

  return {
    add(device, sample) {
      if (maxSamples === 0) return
      const receivedMs = wallMs()
      const { at, clockIsSet } = sample.telemetry
      const measuredMs = Date.parse(at)
      const isWrong = clockIsSet === false || measuredMs > receivedMs + maxAheadMs
      const atMs = isWrong ? receiptTime(receivedMs) : measuredMs
      batch.push({ device, atMs, receivedMs, sample })
      if (batch.length >= batchSamples) flush()
      flushing ??= flushLater()
    },
    of(device, { sinceMs, limit }) {
      flush()
      const rows = sinceMs === undefined ? newest.all(device, limit + 1).reverse() : after.all(device, sinceMs, limit + 1)
      const more = rows.length > limit
      const shown = more ? (sinceMs === undefined ? rows.slice(1) : rows.slice(0, limit)) : rows
      return { samples: samplesOf(shown), more, nextMs: shown.at(-1)?.atMs ?? sinceMs ?? null }
    },
    forgetExcept(known) {
      flush()
      tryOrLog(logger, 'telemetry of unknown devices not deleted', () => {
        for (let device = nextDevice.get(''); device !== undefined; device = nextDevice.get(device))
          if (!known(device)) {
            removeAll.run(device)
            removeBases.run(device)
            removeUsage.run(device)
            usages.delete(device)
            bases.delete(device)
          }
      })
    },
    async close() {
      stopping.abort()
      await flushing
    },
  }
}
