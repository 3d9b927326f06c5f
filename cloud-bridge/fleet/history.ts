import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { DeviceTelemetry } from '../../core/protocol/messages.ts'
import type { Store } from '../../core/store/open-database.ts'

/**
 * A migration. `at_ms` is when it was measured; where the device did not know the time, or has a wrong one that is still to come,
 * when it was heard of. `heard_ms` is this bridge's time of day. A device may say a sample twice after a crash.
 */
export const historyTable = `CREATE TABLE samples (
  n INTEGER PRIMARY KEY,
  device TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  birth INTEGER NOT NULL,
  heard_ms INTEGER NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (device, at_ms, birth)
) STRICT`

/** One sample as it was measured. */
export interface StoredSample extends Omit<DeviceTelemetry, 'v'> {
  /** When this bridge heard of it, by its own clock: UTC, ISO 8601. */
  readonly heardAt: string
}

export interface HistoryQuery {
  /** Samples measured later than this, the oldest first; absent: the newest. */
  readonly sinceMs?: number | undefined
  readonly limit: number
}

export interface History {
  /** Keeps a sample, in order of when it was measured. Never throws. */
  add(device: string, telemetry: DeviceTelemetry): void
  /**
   * In order of when they were measured, or heard of where the device did not know the time, or thought it much later.
   * @returns `more`: there are others beyond the limit; `nextMs`: `sinceMs` of those that come after the last
   */
  of(
    device: string,
    query: HistoryQuery,
  ): { readonly samples: StoredSample[]; readonly more: boolean; readonly nextMs: number | null }
  /** Writes down what is still in memory. */
  close(): Promise<void>
}

export interface HistoryOptions {
  /** Must have had `historyTable`. */
  readonly store: Store
  /** Of each device; beyond it the oldest go. */
  readonly maxSamples: number
  readonly clock: Clock
  readonly wallMs: () => number
  readonly logger: Logger
}

/** Samples are gathered for so long: a commit for each would be most of the work. */
const gatherMs = 500
/** What was measured later than this from now was not: it would stay the newest, and push out all that comes after it. */
const mostAheadMs = 10 * 60_000
/** So many more than allowed are let come together: removing them one by one would cost a search each. */
const slack = 64

interface Row {
  readonly device: string
  readonly atMs: number
  readonly birth: number
  readonly heardMs: number
  readonly body: string
}

/** What the devices measured: of each the last few, on disk, so that neither a restart nor an outage leaves a hole. */
export function createHistory({ store, maxSamples: mostSamples, clock, wallMs, logger }: HistoryOptions): History {
  const insert = store.prepare<Row>(
    'INSERT OR IGNORE INTO samples (device, at_ms, birth, heard_ms, body) VALUES (@device, @atMs, @birth, @heardMs, @body)',
  )
  const countOf = store.prepare<[string], number>('SELECT count(*) FROM samples WHERE device = ?').pluck()
  const trim = store.prepare(
    'DELETE FROM samples WHERE n IN (SELECT n FROM samples WHERE device = ? ORDER BY at_ms, birth LIMIT ?)',
  )
  const after = store.prepare<[string, number, number], Row>(
    'SELECT device, at_ms AS atMs, birth, heard_ms AS heardMs, body FROM samples WHERE device = ? AND at_ms > ? ORDER BY at_ms, birth LIMIT ?',
  )
  const newest = store.prepare<[string, number], Row>(
    'SELECT device, at_ms AS atMs, birth, heard_ms AS heardMs, body FROM samples WHERE device = ? ORDER BY at_ms DESC, birth DESC LIMIT ?',
  )
  const counts = new Map<string, number>()
  const stopping = new AbortController()
  let gathered: Row[] = []
  let gathering: Promise<void> | undefined
  let isFailing = false
  let lastOwnMs = Number.NEGATIVE_INFINITY

  const write = store.transaction((rows: readonly Row[]) => {
    for (const row of rows) {
      const { device } = row
      const count = (counts.get(device) ?? countOf.get(device) ?? 0) + insert.run(row).changes
      const surplus = count - mostSamples
      counts.set(device, surplus < slack ? count : count - trim.run(device, surplus).changes)
    }
  })

  function flush(): void {
    const rows = gathered
    gathered = []
    try {
      if (rows.length > 0) write.immediate(rows)
      isFailing = false
    } catch (err) {
      counts.clear()
      if (!isFailing) logger.error({ err, samples: rows.length }, 'telemetry not stored')
      isFailing = true
    }
  }

  const gather = () =>
    clock
      .sleep(gatherMs, stopping.signal)
      .catch(() => {})
      .then(() => {
        gathering = undefined
        flush()
      })

  /** For what is known by when it was heard of: what comes at once, as after an outage, must not be taken for one sample. */
  function ownTime(heardMs: number): number {
    lastOwnMs = heardMs > lastOwnMs || heardMs < lastOwnMs - mostAheadMs ? heardMs : lastOwnMs + 1
    return lastOwnMs
  }

  return {
    add(device, { v: _, ...measured }) {
      if (mostSamples === 0) return
      const heardMs = wallMs()
      const saidMs = Date.parse(measured.at)
      const atMs = measured.clockIsSet === false || saidMs > heardMs + mostAheadMs ? ownTime(heardMs) : saidMs
      gathered.push({ device, atMs, birth: measured.birth, heardMs, body: JSON.stringify(measured) })
      gathering ??= gather()
    },
    of(device, { sinceMs, limit }) {
      flush()
      const rows = sinceMs === undefined ? newest.all(device, limit + 1).reverse() : after.all(device, sinceMs, limit + 1)
      const more = rows.length > limit
      const shown = more ? (sinceMs === undefined ? rows.slice(1) : rows.slice(0, limit)) : rows
      return { samples: shown.map(sampleOf), more, nextMs: shown.at(-1)?.atMs ?? sinceMs ?? null }
    },
    async close() {
      stopping.abort()
      await gathering
    },
  }
}

function sampleOf({ body, heardMs }: Row): StoredSample {
  const measured = JSON.parse(body) as Omit<DeviceTelemetry, 'v'>
  return { ...measured, heardAt: new Date(heardMs).toISOString() }
}
