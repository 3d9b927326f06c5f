import { randomBytes } from 'node:crypto'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type { DeviceOutcome, RolloutState, RolloutTerms } from '../../core/policy/rollout/rollout.ts'
import { recentAt } from '../../core/policy/rollout/start-rate.ts'
import {
  RolloutPace,
  type RolloutSelector,
  type RolloutSubmission,
  type rolloutDeviceStates,
} from '../../core/wire/protocol/http/rollouts.ts'

/**
 * A migration. `next` and `outcomes` count what `rollout_devices` holds, and change with it. `ended_ms`: when the last device
 * had ended. A device of a rollout has the state of core/policy/rollout, or `waiting` or `started`.
 */
export const rolloutTables = `CREATE TABLE rollouts (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  input TEXT NOT NULL,
  selector TEXT NOT NULL,
  pace TEXT NOT NULL,
  devices INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT,
  next INTEGER NOT NULL,
  outcomes TEXT NOT NULL,
  first_passed INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  ended_ms INTEGER
) STRICT;
CREATE INDEX rollouts_open ON rollouts (n) WHERE ended_ms IS NULL;
CREATE TABLE rollout_devices (
  rollout INTEGER NOT NULL,
  place INTEGER NOT NULL,
  device TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting',
  job TEXT,
  started_ms INTEGER,
  ended_ms INTEGER,
  error TEXT,
  PRIMARY KEY (rollout, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_devices_open ON rollout_devices (device) WHERE state IN ('waiting', 'started');`

/** Retained rollouts that have ended. */
const maxRetained = 200

export type RolloutDeviceState = (typeof rolloutDeviceStates)[number]

/** A rollout as stored: its conditions and its state. */
export interface StoredRollout {
  readonly n: number
  readonly id: string
  readonly kind: RolloutSubmission['kind']
  readonly input: unknown
  readonly selector: RolloutSelector
  readonly pace: RolloutPace
  readonly createdMs: number
  readonly createdBy: string
  readonly endedMs: number | null
  readonly rollout: RolloutState
}

export interface StoredRolloutDevice {
  readonly place: number
  readonly device: string
  readonly state: RolloutDeviceState
  readonly job: string | null
  readonly startedMs: number | null
  readonly endedMs: number | null
  readonly error: DeviceError | null
}

export interface DeviceError {
  readonly code: string
  readonly message: string
}

/** Rollouts on disk. Calls that change several rows belong into `transaction`. */
export interface RolloutStore {
  /** Runs `work` in one transaction, which is on disk on return. */
  transaction<T>(work: () => T): T
  /** @param ids devices, in the order in which they start */
  add(
    submission: Pick<RolloutSubmission, 'kind' | 'input' | 'selector' | 'pace'>,
    state: RolloutState,
    ids: readonly string[],
    createdBy: string,
    nowMs: number,
  ): string
  save(n: number, state: RolloutState, endedMs: number | null): void
  startDevices(n: number, from: number, count: number, nowMs: number): void
  skipDevices(n: number, from: number, nowMs: number): void
  /** @returns false: the device had ended */
  endDevice(n: number, place: number, outcome: DeviceOutcome, error: DeviceError | null, nowMs: number): boolean
  /** The devices whose success is not older. */
  succeededSince(n: number, sinceMs: number): StoredRolloutDevice[]
  /** A device that had succeeded was lost. @returns false: it had not succeeded */
  failDevice(n: number, place: number, error: DeviceError): boolean
  setJob(n: number, place: number, job: string): void
  /**
   * Rollouts with devices that have not ended. One whose record is damaged ends here: the others go on.
   * @param nowMs for the starts that count against their rates
   */
  open(nowMs: number): StoredRollout[]
  find(id: string): StoredRollout | undefined
  newest(limit: number): StoredRollout[]
  /** @param from place of the first */
  devices(n: number, from: number, state: RolloutDeviceState | null, limit: number): StoredRolloutDevice[]
  latestFailed(n: number, limit: number): StoredRolloutDevice[]
  /** The rollout of this kind that a device takes part in, or waits for while it runs; undefined: none. */
  openOf(device: string, kind: string): string | undefined
  /** The devices that rollouts of this kind after the n-th have, with the newest of these. */
  ofNewer(kind: string, n: number): ReadonlyMap<string, string>
}

interface Row {
  readonly n: number
  readonly id: string
  readonly kind: RolloutSubmission['kind']
  readonly input: string
  readonly selector: string
  readonly pace: string
  readonly devices: number
  readonly state: RolloutState['state']
  readonly reason: string | null
  readonly next: number
  readonly outcomes: string
  readonly first_passed: number
  readonly created_ms: number
  readonly created_by: string
  readonly ended_ms: number | null
}

/** @param store must have `rolloutTables` */
export function createRolloutStore(store: Store): RolloutStore {
  const transaction = store.transaction((work: () => unknown) => work())
  const insert = store.prepare(
    `INSERT INTO rollouts (id, kind, input, selector, pace, devices, state, next, outcomes, first_passed, created_ms, created_by)
     VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)`,
  )
  const insertDevice = store.prepare('INSERT INTO rollout_devices (rollout, place, device) VALUES (?, ?, ?)')
  const update = store.prepare(
    'UPDATE rollouts SET state = ?, reason = ?, next = ?, outcomes = ?, first_passed = ?, ended_ms = ? WHERE n = ?',
  )
  const abort = store.prepare("UPDATE rollouts SET state = 'aborted', reason = ?, ended_ms = ? WHERE n = ?")
  const abortDevices = store.prepare(
    "UPDATE rollout_devices SET state = 'skipped', ended_ms = ? WHERE rollout = ? AND state IN ('waiting', 'started')",
  )
  const start = store.prepare(
    "UPDATE rollout_devices SET state = 'started', started_ms = ? WHERE rollout = ? AND place >= ? AND place < ?",
  )
  const skip = store.prepare("UPDATE rollout_devices SET state = 'skipped', ended_ms = ? WHERE rollout = ? AND place >= ?")
  const end = store.prepare(
    "UPDATE rollout_devices SET state = ?, ended_ms = ?, error = ? WHERE rollout = ? AND place = ? AND state = 'started'",
  )
  const setJob = store.prepare('UPDATE rollout_devices SET job = ? WHERE rollout = ? AND place = ?')
  const open = store.prepare<[], Row>('SELECT * FROM rollouts WHERE ended_ms IS NULL ORDER BY n')
  const newest = store.prepare<[number], Row>('SELECT * FROM rollouts ORDER BY n DESC LIMIT ?')
  const byId = store.prepare<[string], Row>('SELECT * FROM rollouts WHERE id = ?')
  const recent = store.prepare<[number, number], { atMs: number; devices: number }>(
    `SELECT started_ms AS atMs, count(*) AS devices FROM rollout_devices WHERE rollout = ? AND started_ms > ?
     GROUP BY started_ms ORDER BY started_ms`,
  )
  type DeviceRow = Omit<StoredRolloutDevice, 'error'> & { readonly error: string | null }
  const columns = 'place, device, state, job, started_ms AS startedMs, ended_ms AS endedMs, error'
  const devices = store.prepare<[number, number, string | null, string | null, number], DeviceRow>(
    `SELECT ${columns} FROM rollout_devices WHERE rollout = ? AND place >= ? AND (? IS NULL OR state = ?) ORDER BY place LIMIT ?`,
  )
  const succeededSince = store.prepare<[number, number], DeviceRow>(
    `SELECT ${columns} FROM rollout_devices WHERE rollout = ? AND state = 'succeeded' AND ended_ms > ?`,
  )
  const fail = store.prepare(
    "UPDATE rollout_devices SET state = 'failed', error = ? WHERE rollout = ? AND place = ? AND state = 'succeeded'",
  )
  const latestFailed = store.prepare<[number, number], DeviceRow>(
    `SELECT ${columns} FROM rollout_devices WHERE rollout = ? AND state = 'failed' ORDER BY ended_ms DESC, place DESC LIMIT ?`,
  )
  const openOf = store
    .prepare<[string, string], string>(
      `SELECT id FROM rollout_devices JOIN rollouts ON n = rollout
     WHERE device = ? AND kind = ? AND rollout_devices.state IN ('waiting', 'started')
       AND (rollout_devices.state = 'started' OR rollouts.state = 'running')`,
    )
    .pluck()
  const ofNewer = store.prepare<[string, number], { device: string; id: string }>(
    `SELECT device, id FROM rollouts JOIN rollout_devices ON rollout = n
     WHERE kind = ? AND n > ? AND rollout_devices.state NOT IN ('skipped', 'canceled') ORDER BY n`,
  )
  const superseded = store
    .prepare<[number], number>('SELECT n FROM rollouts WHERE ended_ms IS NOT NULL ORDER BY n DESC LIMIT -1 OFFSET ?')
    .pluck()
  const removeDevices = store.prepare('DELETE FROM rollout_devices WHERE rollout = ?')
  const remove = store.prepare('DELETE FROM rollouts WHERE n = ?')

  function storedOf(row: Row): StoredRollout {
    const { n, id, kind, devices, state, reason, next, created_ms: createdMs, created_by: createdBy, ended_ms: endedMs } = row
    const pace = (storedJson(row.pace) as RolloutPace | undefined) ?? RolloutPace.parse({})
    const outcomes = (storedJson(row.outcomes) as RolloutState['outcomes'] | undefined) ?? noOutcomes
    const isFirstPassed = row.first_passed === 1
    const rollout = {
      state,
      reason,
      terms: storedTermsOf(pace),
      devices,
      next,
      outcomes,
      soaking: 0,
      isFirstPassed,
      recentStarts: [],
    }
    const [input, selector] = [storedJson(row.input) ?? null, (storedJson(row.selector) ?? {}) as RolloutSelector]
    return { n, id, kind, input, selector, pace, createdMs, createdBy, endedMs, rollout }
  }

  function setAside({ n }: Row, nowMs: number): void {
    transaction.immediate(() => {
      abort.run('its stored record is damaged', Math.round(nowMs), n)
      abortDevices.run(Math.round(nowMs), n)
    })
  }

  const deviceOf = ({ error, ...row }: DeviceRow): StoredRolloutDevice => ({
    ...row,
    error:
      error === null
        ? null
        : ((storedJson(error) as DeviceError | undefined) ?? { code: 'STORE_DAMAGED', message: 'unreadable' }),
  })

  return {
    transaction: <T>(work: () => T): T => transaction.immediate(work) as T,
    add({ kind, input, selector, pace }, { state, outcomes, isFirstPassed }, ids, createdBy, nowMs) {
      // Random: the key of a job must not be that of a job for a rollout that another database had.
      const id = randomBytes(4).toString('hex')
      const json = [input, selector, pace].map((value) => JSON.stringify(value))
      const counted = [ids.length, state, JSON.stringify(outcomes), Number(isFirstPassed)]
      const n = insert.run(id, kind, ...json, ...counted, Math.round(nowMs), createdBy).lastInsertRowid
      for (const [place, device] of ids.entries()) insertDevice.run(n, place, device)
      for (const old of superseded.all(maxRetained)) {
        removeDevices.run(old)
        remove.run(old)
      }
      return id
    },
    save(n, { state, reason, next, outcomes, isFirstPassed }, endedMs) {
      update.run(state, reason, next, JSON.stringify(outcomes), Number(isFirstPassed), endedMs, n)
    },
    startDevices: (n, from, count, nowMs) => void start.run(Math.round(nowMs), n, from, from + count),
    skipDevices: (n, from, nowMs) => void skip.run(Math.round(nowMs), n, from),
    endDevice: (n, place, outcome, error, nowMs) =>
      end.run(outcome, Math.round(nowMs), error && JSON.stringify(error), n, place).changes === 1,
    succeededSince: (n, sinceMs) => succeededSince.all(n, sinceMs).map(deviceOf),
    failDevice: (n, place, error) => fail.run(JSON.stringify(error), n, place).changes === 1,
    setJob: (n, place, job) => void setJob.run(job, n, place),
    open: (nowMs) =>
      open.all().flatMap((row) => {
        if (isDamaged(row)) {
          setAside(row, nowMs)
          return []
        }
        const stored = storedOf(row)
        const recentStarts = recentAt(recent.all(row.n, nowMs - 60_000), nowMs)
        return [{ ...stored, rollout: { ...stored.rollout, recentStarts } }]
      }),
    find(id) {
      const row = byId.get(id)
      return row && storedOf(row)
    },
    newest: (limit) => newest.all(limit).map(storedOf),
    devices: (n, from, state, limit) => devices.all(n, from, state, state, limit).map(deviceOf),
    latestFailed: (n, limit) => latestFailed.all(n, limit).map(deviceOf),
    openOf: (device, kind) => openOf.get(device, kind),
    ofNewer: (kind, n) => new Map(ofNewer.all(kind, n).map(({ device, id }) => [device, id])),
  }
}

const noOutcomes: RolloutState['outcomes'] = { succeeded: 0, failed: 0, canceled: 0, skipped: 0 }

const isDamaged = ({ pace, outcomes, input, selector }: Row): boolean =>
  [pace, outcomes, input, selector].some((json) => storedJson(json) === undefined)

export function storedTermsOf(pace: RolloutPace): RolloutTerms {
  const { ratePerMinute, growth, first, pauseAfterFirst, abortAbovePercent, abortAfter } = pace
  return { ratePerMinute, growth, first, pauseAfterFirst, abortAbovePercent, abortAfter }
}
