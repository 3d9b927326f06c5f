import { storedJson } from '../../core/kit/store/stored-json.ts'
import { type AvailableDevice, assignJobs, type Lane, rebalanceJobs } from '../../core/policy/jobs/assign-jobs.ts'
import { maintenanceKinds } from '../../core/wire/protocol/jobs.ts'
import type { AttemptEffect, JobDatabase } from './job-database.ts'
import type { JobRow } from './job-tables.ts'

/** An attempt to be sent to its device. */
export interface AttemptToSend {
  readonly job: string
  readonly attempt: number
  readonly device: string
  readonly kind: string
  readonly input: unknown
}

/** Devices whose jobs one rebalancing considers. */
const maxWaiting = 256

const maintenance = [...maintenanceKinds].map((kind) => `'${kind}'`).join(', ')
/** SQL conditions. */
const isOf: Readonly<Record<Lane, string>> = { work: `kind NOT IN (${maintenance})`, maintenance: `kind IN (${maintenance})` }

/** Gives jobs to devices: SQL selects a bounded number of candidates, core/policy/jobs/assign-jobs.ts chooses. */
export interface JobAssigning {
  /** Dispatches queued jobs of a lane to devices with free slots. @param nowMs wall clock @param lane default: work */
  claim(devices: readonly AvailableDevice[], nowMs: number, lane?: Lane): AttemptToSend[]
  rebalance(idle: readonly AvailableDevice[], nowMs: number): MovedJobs
  /** The current attempt of a job, to be sent again; undefined: no device has the job, or it is damaged. */
  dispatchOf(id: string): AttemptToSend | undefined
  /** Number of queued jobs of a kind that any device may run now, up to `max`. */
  countReady(kind: string, nowMs: number, max: number): number
}

/** The new attempts, and the cancellations for the devices that had the jobs. */
interface MovedJobs {
  readonly dispatched: readonly AttemptToSend[]
  readonly effects: readonly AttemptEffect[]
}

export function createAssigning(db: JobDatabase): JobAssigning {
  const isReady = "state = 'QUEUED' AND not_before_ms IS NULL"
  const unbound = db.store.prepare<[string, number, number], JobRow>(
    `SELECT * FROM jobs WHERE ${isReady} AND target IS NULL AND kind = ? AND ends_by_ms > ? ORDER BY priority DESC, n LIMIT ?`,
  )
  const boundOf = (lane: Lane) =>
    db.store.prepare<[string, number, number], JobRow>(
      `SELECT * FROM jobs WHERE ${isReady} AND target IS NOT NULL AND target = ? AND ${isOf[lane]} AND ends_by_ms > ?
       ORDER BY priority DESC, n LIMIT ?`,
    )
  const bound = { work: boundOf('work'), maintenance: boundOf('maintenance') }
  const readyOf = db.store
    .prepare<[string, number, number], number>(
      `SELECT count(*) FROM (SELECT 1 FROM jobs WHERE ${isReady} AND target IS NULL AND kind = ? AND ends_by_ms > ? LIMIT ?)`,
    )
    .pluck()
  const behindRunning = db.store.prepare<[string], JobRow>(
    `SELECT * FROM jobs WHERE holder = ? AND state = 'ACCEPTED' AND target IS NULL AND ${isOf.work}
     AND EXISTS (SELECT 1 FROM jobs AS first WHERE first.holder = jobs.holder AND state = 'RUNNING' AND ${isOf.work})`,
  )

  /** Jobs that only this device may run. */
  function ownOf(device: string, lane: Lane, max: number, nowMs: number): JobRow[] {
    if (!db.loads.mayHaveOwn(device, lane)) return []
    const rows = bound[lane].all(device, nowMs, max)
    if (rows.length === 0) db.loads.hasNoneOfItsOwn(device, lane)
    return rows
  }

  /** At most as many as there are free slots: of each kind, and of each device. */
  function candidates(lane: Lane, devices: readonly AvailableDevice[], nowMs: number): JobRow[] {
    const free = devices.filter(({ freeSlots }) => freeSlots > 0)
    const rows = free.flatMap(({ device, freeSlots }) => ownOf(device, lane, freeSlots, nowMs))
    // Jobs of maintenance are always bound to a device.
    if (lane === 'maintenance') return rows
    const slots = free.reduce((sum, { freeSlots }) => sum + freeSlots, 0)
    const kinds = new Set(free.flatMap((device) => device.kinds))
    for (const kind of kinds) rows.push(...unbound.all(kind, nowMs, slots))
    return rows
  }

  /** Jobs that wait behind a running one, the most urgent first. */
  function waiting(): JobRow[] {
    const rows = db.loads.nextWithSeveral(maxWaiting).flatMap((device) => behindRunning.all(device))
    return rows.sort((a, b) => b.priority - a.priority || a.n - b.n)
  }

  function dispatch(row: JobRow, device: string, nowMs: number): AttemptToSend[] {
    const dispatched = dispatchTo(device, row.attempt + 1, row)
    if (!dispatched) {
      db.setAside(row, nowMs)
      return []
    }
    const { isChanged, isSetAside } = db.apply(row, { kind: 'dispatch', device }, nowMs)
    return isChanged && !isSetAside ? [dispatched] : []
  }

  /** Undefined: the job's input is damaged. */
  function dispatchTo(device: string, attempt: number, { n, kind, input: json }: JobRow): AttemptToSend | undefined {
    const input = storedJson(json)
    return input === undefined ? undefined : { job: db.idOf(n), attempt, device, kind, input }
  }

  return {
    claim: (devices, nowMs, lane = 'work') =>
      db.transaction(() =>
        assignJobs(candidates(lane, devices, nowMs), devices).flatMap(({ job, device }) => dispatch(job, device, nowMs)),
      ),
    rebalance(idle, nowMs) {
      const moves = idle.length === 0 ? [] : rebalanceJobs(waiting(), idle)
      const dispatched: AttemptToSend[] = []
      const effects: AttemptEffect[] = []
      if (moves.length === 0) return { dispatched, effects }
      return db.transaction(() => {
        for (const { job, device } of moves) {
          effects.push(...db.apply(job, { kind: 'requeue' }, nowMs).effects)
          const queued = db.rowOf(db.idOf(job.n))
          if (queued) dispatched.push(...dispatch(queued, device, nowMs))
        }
        return { dispatched, effects }
      })
    },
    dispatchOf(id) {
      const row = db.rowOf(id)
      return row?.holder == null ? undefined : dispatchTo(row.holder, row.attempt, row)
    },
    countReady: (kind, nowMs, max) => readyOf.get(kind, nowMs, max) ?? 0,
  }
}
