import { isoOf } from '../../core/kit/base/clock.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { isTerminal, type JobState } from '../../core/policy/jobs/job.ts'
import type { JobDetails, JobSummary, StoredJobEvent } from '../../core/wire/protocol/http/jobs.ts'
import type { JobKind } from '../../core/wire/protocol/jobs.ts'
import type { JobDatabase } from './job-database.ts'
import { damagedError, isDead, isSetAside, type JobRow, jobOf } from './job-tables.ts'

export interface JobFilter {
  readonly state?: JobState | undefined
  readonly kind?: JobKind | undefined
  /** Only dead letters. */
  readonly dead?: boolean | undefined
  readonly limit: number
}

const maxCounted = 10_000
const deadStates: ReadonlySet<JobState | undefined> = new Set(['FAILED', 'REJECTED', 'TIMED_OUT'])

export interface JobReader {
  find(id: string): JobDetails | undefined
  /** For the log: how a job has ended; undefined: it has not. */
  endOf(id: string): EndedJob | undefined
  /** The newest jobs first. */
  list(filter: JobFilter): JobSummary[]
  /** The history after line `seq`, in order. */
  events(id: string, seq: number, limit: number): StoredJobEvent[]
  /** The jobs that a device holds, the oldest first. */
  heldBy(device: string): JobSummary[]
  /** Ids of the jobs that only this device may run, and that have not ended. */
  openOf(device: string): string[]
  /** Number of jobs that were set aside because a part of them was damaged (at most 10,000 are counted). */
  countDamaged(): number
  /** Numbers of queued and dispatched jobs, and of dead letters (at most 10,000 of these are counted). */
  counts(): { readonly queued: number; readonly underWay: number; readonly dead: number }
}

interface EndedJob extends Pick<JobSummary, 'kind' | 'state' | 'attempt'> {
  readonly job: string
  readonly device: string | undefined
  readonly tookMs: number
}

export function createJobReader(db: JobDatabase): JobReader {
  const openOf = db.store.prepare<[string], { n: number }>(
    'SELECT n FROM jobs INDEXED BY jobs_due WHERE due_ms IS NOT NULL AND target = ? ORDER BY n',
  )
  // Reads partial indexes only: every open job has a deadline.
  const counts = db.store.prepare<[], { open: number; held: number; dead: number }>(
    `SELECT (SELECT count(*) FROM jobs WHERE due_ms IS NOT NULL) AS open,
      (SELECT count(*) FROM jobs WHERE holder IS NOT NULL) AS held,
      (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE ${isDead} LIMIT ${maxCounted})) AS dead`,
  )
  const setAside = db.store
    .prepare<[], number>(
      `SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_set_aside WHERE ${isSetAside} LIMIT ${maxCounted})`,
    )
    .pluck()
  const events = db.store.prepare<
    [number, number, number],
    { seq: number; at_ms: number; attempt: number; device: string | null; type: string; data: string }
  >('SELECT seq, at_ms, attempt, device, type, data FROM job_events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?')

  function summaryOf(row: JobRow): JobSummary {
    const { devices, failures, error } = jobOf(row) ?? { devices: [], failures: {}, error: damagedError }
    return {
      id: db.idOf(row.n),
      kind: row.kind,
      state: row.state,
      attempt: row.attempt,
      device: row.holder,
      lastDevice: devices.at(-1) ?? null,
      boundTo: row.target,
      priority: row.priority,
      key: row.key,
      submittedAt: isoOf(row.submitted_ms),
      deadlineAt: isoOf(row.ends_by_ms),
      finishedAt: row.finished_ms === null ? null : isoOf(row.finished_ms),
      retryOf: row.retry_of,
      failures,
      error,
    }
  }

  return {
    find(id) {
      const row = db.rowOf(id)
      if (!row) return undefined
      const summary = summaryOf(row)
      const [input, result] = [storedJson(row.input), storedJson(row.result ?? 'null')]
      const isDamaged = input === undefined || result === undefined
      return {
        ...summary,
        error: isDamaged ? damagedError : summary.error,
        input: input ?? null,
        result: result ?? null,
        devices: [...(jobOf(row)?.devices ?? [])],
      }
    },
    endOf(id) {
      const row = db.rowOf(id)
      if (row?.finished_ms == null) return undefined
      const { kind, state, attempt, submitted_ms, finished_ms } = row
      return { job: id, kind, state, attempt, device: jobOf(row)?.devices.at(-1), tookMs: finished_ms - submitted_ms }
    },
    list({ state, kind, dead, limit }) {
      const isOpen = state !== undefined && !isTerminal(state)
      const conditions = [
        // Reads the few open jobs by their index, not all retained ones.
        ...(isOpen ? ['due_ms IS NOT NULL'] : []),
        ...(state === undefined ? [] : ['state = @state']),
        ...(kind === undefined ? [] : ['kind = @kind']),
        ...(dead || deadStates.has(state) ? [isDead] : []),
      ]
      const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
      return db.store
        .prepare<[object], JobRow>(
          `SELECT * FROM jobs ${isOpen ? 'INDEXED BY jobs_due' : ''} ${where} ORDER BY n DESC LIMIT @limit`,
        )
        .all({ state, kind, limit })
        .map(summaryOf)
    },
    events(id, seq, limit) {
      const n = db.numberOf(id)
      if (n === undefined) return []
      return events
        .all(n, seq, limit)
        .map(({ at_ms, data, ...event }) => ({ ...event, at: isoOf(at_ms), data: storedJson(data) ?? {} }))
    },
    heldBy: (device) => db.heldBy(device).map(summaryOf),
    openOf: (device) => openOf.all(device).map(({ n }) => db.idOf(n)),
    countDamaged: () => setAside.get() ?? 0,
    counts() {
      const { open, held, dead } = counts.get()!
      return { queued: open - held, underWay: held, dead }
    },
  }
}
