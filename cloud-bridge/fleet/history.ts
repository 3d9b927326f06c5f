import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { tryOrLog } from '../../core/base/try-or-log.ts'
import type { TelemetrySample } from '../../core/protocol/http/devices.ts'
import type { DeviceTelemetry } from '../../core/protocol/messages.ts'
import type { Store } from '../../core/store/open-database.ts'

/**
 * Migrations. `at_ms` is the time of the measurement by the device's clock. It is the time of receipt if the device's
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
]

export interface HistoryQuery {
  /** Samples after this time, the oldest first; absent: the newest samples. */
  readonly sinceMs?: number | undefined
  readonly limit: number
}

export interface History {
  /** Stores a sample. Never throws. */
  add(device: string, telemetry: DeviceTelemetry): void
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

/** Time that samples are collected for one commit. */
const batchMs = 500
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

interface Row {
  readonly device: string
  readonly atMs: number
  readonly birth: number
  readonly receivedMs: number
  readonly body: string
}

/** What a device has stored. */
interface Usage {
  readonly samples: number
  readonly bytes: number
}

/** The latest samples of every device, on disk: a restart or an outage leaves no gap. */
export function createHistory({ store, maxSamples, maxDeviceBytes, clock, wallMs, logger }: HistoryOptions): History {
  const insert = store.prepare<Row>(
    'INSERT OR IGNORE INTO samples (device, at_ms, birth, heard_ms, body) VALUES (@device, @atMs, @birth, @receivedMs, @body)',
  )
  const readUsage = store.prepare<[string], Usage>('SELECT samples, bytes FROM usage WHERE device = ?')
  const writeUsage = store.prepare<[string, number, number]>(
    'INSERT OR REPLACE INTO usage (device, samples, bytes) VALUES (?, ?, ?)',
  )
  const sizeOfRow = `octet_length(body) + ${rowBytes}`
  const countUsage = store.prepare<[string], Usage>(
    `SELECT count(*) AS samples, coalesce(sum(${sizeOfRow}), 0) AS bytes FROM samples WHERE device = ?`,
  )
  const trim = store
    .prepare<[string, number], number>(
      `DELETE FROM samples WHERE n IN (SELECT n FROM samples WHERE device = ? ORDER BY at_ms, birth LIMIT ?)
       RETURNING ${sizeOfRow}`,
    )
    .pluck()
  const after = store.prepare<[string, number, number], Row>(
    'SELECT device, at_ms AS atMs, birth, heard_ms AS receivedMs, body FROM samples WHERE device = ? AND at_ms > ? ORDER BY at_ms, birth LIMIT ?',
  )
  const newest = store.prepare<[string, number], Row>(
    'SELECT device, at_ms AS atMs, birth, heard_ms AS receivedMs, body FROM samples WHERE device = ? ORDER BY at_ms DESC, birth DESC LIMIT ?',
  )
  const removeAll = store.prepare('DELETE FROM samples WHERE device = ?')
  const nextDevice = store
    .prepare<[string], string>('SELECT device FROM samples WHERE device > ? ORDER BY device LIMIT 1')
    .pluck()
  const removeUsage = store.prepare('DELETE FROM usage WHERE device = ?')
  const usages = new Map<string, Usage>()
  const stopping = new AbortController()
  let batch: Row[] = []
  let flushing: Promise<void> | undefined
  let isFailing = false
  let lastReceiptMs = Number.NEGATIVE_INFINITY

  const write = store.transaction((rows: readonly Row[]) => {
    const changed = new Set<string>()
    for (const row of rows) {
      const { device, body } = row
      const { samples, bytes } = usages.get(device) ?? readUsage.get(device) ?? countUsage.get(device)!
      const isNew = insert.run(row).changes > 0
      usages.set(device, isNew ? { samples: samples + 1, bytes: bytes + Buffer.byteLength(body) + rowBytes } : { samples, bytes })
      changed.add(device)
    }
    for (const device of changed) {
      const usage = trimmed(device, usages.get(device)!)
      usages.set(device, usage)
      writeUsage.run(device, usage.samples, usage.bytes)
    }
  })

  /** Deletes the oldest samples of a device that has too many. @returns what is left */
  function trimmed(device: string, usage: Usage): Usage {
    const surplus = usage.samples - maxSamples
    const isLarge = usage.bytes > maxDeviceBytes
    if (surplus < slack && !isLarge) return usage
    const deleted = trim.all(device, Math.max(surplus, isLarge ? Math.ceil(usage.samples * byteSlack) : 0))
    const deletedBytes = deleted.reduce((sum, bytes) => sum + bytes, 0)
    const left = { samples: usage.samples - deleted.length, bytes: usage.bytes - deletedBytes }
    return deleted.length === 0 ? left : trimmed(device, left)
  }

  function flush(): void {
    const rows = batch
    batch = []
    try {
      if (rows.length > 0) write.immediate(rows)
      isFailing = false
    } catch (err) {
      usages.clear()
      if (!isFailing) logger.error({ err, samples: rows.length }, 'telemetry not stored')
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

  return {
    add(device, { v: _, ...measured }) {
      if (maxSamples === 0) return
      const receivedMs = wallMs()
      const measuredMs = Date.parse(measured.at)
      const isWrong = measured.clockIsSet === false || measuredMs > receivedMs + maxAheadMs
      const atMs = isWrong ? receiptTime(receivedMs) : measuredMs
      batch.push({ device, atMs, birth: measured.birth, receivedMs, body: JSON.stringify(measured) })
      flushing ??= flushLater()
    },
    of(device, { sinceMs, limit }) {
      flush()
      const rows = sinceMs === undefined ? newest.all(device, limit + 1).reverse() : after.all(device, sinceMs, limit + 1)
      const more = rows.length > limit
      const shown = more ? (sinceMs === undefined ? rows.slice(1) : rows.slice(0, limit)) : rows
      return { samples: shown.map(sampleOf), more, nextMs: shown.at(-1)?.atMs ?? sinceMs ?? null }
    },
    forgetExcept(known) {
      flush()
      tryOrLog(logger, 'telemetry of unknown devices not deleted', () => {
        for (let device = nextDevice.get(''); device !== undefined; device = nextDevice.get(device))
          if (!known(device)) {
            removeAll.run(device)
            removeUsage.run(device)
            usages.delete(device)
          }
      })
    },
    async close() {
      stopping.abort()
      await flushing
    },
  }
}

function sampleOf({ body, receivedMs }: Row): TelemetrySample {
  const measured = JSON.parse(body) as Omit<DeviceTelemetry, 'v'>
  return { ...measured, heardAt: new Date(receivedMs).toISOString() }
}
