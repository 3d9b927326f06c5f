import { storedJson } from '../../core/kit/store/stored-json.ts'
import { holderOf, type Job, type JobError, type JobState, type JobTerms } from '../../core/policy/jobs/job.ts'
import { steadyTimeTable } from './steady-time.ts'

/** SQL conditions of finished jobs: those that succeeded or were canceled, and dead letters. */
export const isDone = "finished_ms IS NOT NULL AND state IN ('SUCCEEDED', 'CANCELED')"
export const isDead = "finished_ms IS NOT NULL AND state IN ('FAILED', 'REJECTED', 'TIMED_OUT')"

/** Why a damaged job failed. A migration holds it. */
export const damagedError: JobError = { code: 'STORE_DAMAGED', message: 'the stored job is damaged: submit it again' }

/** SQL condition of damaged jobs that have been set aside. */
export const isSetAside = `error = '${JSON.stringify(damagedError)}'`

/** What a row takes beside its JSON, about. */
const rowBytes = 64

/** The size of a row with this JSON. */
export const storedBytes = (json: string): number => Buffer.byteLength(json) + rowBytes

/**
 * Migrations. A job is one row. Partial indexes hold only open jobs, so that a million finished jobs slow nothing down.
 * Each condition begins with a column that is null in a new job, which keeps inserts cheap. The newest row is never
 * deleted, so that SQLite never reuses `n`. `job_events` holds the history of a job, with the pieces of its answer.
 * `job_shares` holds what each device has stored in attempts that have ended; `owns`: the device ended the job, or an empty
 * name, if no device ever had it. `device_days` holds what each device has stored on the day of its last report.
 */
export const jobTables = [
  `
CREATE TABLE jobs (
  n INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  target TEXT,
  priority INTEGER NOT NULL,
  key TEXT,
  input TEXT NOT NULL,
  terms TEXT NOT NULL,
  submitted_ms INTEGER NOT NULL,
  ends_by_ms INTEGER NOT NULL,
  due_ms REAL,
  retry_of TEXT,
  state TEXT NOT NULL DEFAULT 'QUEUED',
  attempt INTEGER NOT NULL DEFAULT 0,
  devices TEXT,
  failures TEXT,
  holder TEXT,
  heard_n INTEGER NOT NULL DEFAULT 0,
  not_before_ms REAL,
  run_by_ms REAL,
  lost_at_ms REAL,
  error TEXT,
  result TEXT,
  finished_ms INTEGER
) STRICT;
CREATE INDEX jobs_open ON jobs (kind, priority DESC) WHERE target IS NULL AND state = 'QUEUED' AND not_before_ms IS NULL;
CREATE INDEX jobs_bound ON jobs (target, priority DESC) WHERE target IS NOT NULL AND state = 'QUEUED' AND not_before_ms IS NULL;
CREATE INDEX jobs_due ON jobs (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX jobs_held ON jobs (holder) WHERE holder IS NOT NULL;
CREATE UNIQUE INDEX jobs_key ON jobs (key) WHERE key IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (n) WHERE finished_ms IS NOT NULL AND state IN ('FAILED', 'REJECTED', 'TIMED_OUT');
CREATE TABLE job_events (
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  device TEXT,
  type TEXT NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE job_store (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL) STRICT;
`,
  `
CREATE INDEX jobs_done_age ON jobs (finished_ms) WHERE finished_ms IS NOT NULL AND state IN ('SUCCEEDED', 'CANCELED');
CREATE INDEX jobs_dead_age ON jobs (finished_ms) WHERE finished_ms IS NOT NULL AND state IN ('FAILED', 'REJECTED', 'TIMED_OUT');
`,
  `
ALTER TABLE jobs ADD COLUMN attempt_bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE job_shares (
  device TEXT NOT NULL,
  job INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  owns INTEGER NOT NULL,
  PRIMARY KEY (device, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_shares_job ON job_shares (job);
CREATE TABLE device_days (device TEXT PRIMARY KEY, day TEXT NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO job_shares (device, job, bytes, owns)
  SELECT coalesce(devices ->> '$[#-1]', ''), n, octet_length(input) + coalesce(octet_length(result), 0) + ${rowBytes} +
    coalesce((SELECT sum(octet_length(data) + ${rowBytes}) FROM job_events WHERE job = n), 0), 1
  FROM jobs WHERE finished_ms IS NOT NULL;
`,
  `
CREATE TABLE job_names (from_n INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
INSERT INTO job_names (from_n, name) SELECT 0, name FROM job_store;
DROP TABLE job_store;
`,
  steadyTimeTable,
  `CREATE INDEX jobs_set_aside ON jobs (n) WHERE ${isSetAside}`,
]

export interface JobRow {
  readonly n: number
  readonly kind: string
  readonly target: string | null
  readonly priority: number
  readonly key: string | null
  /** JSON, as `terms`, `devices`, `failures`, `error` and `result`. */
  readonly input: string
  readonly terms: string
  readonly submitted_ms: number
  readonly ends_by_ms: number
  readonly due_ms: number | null
  readonly retry_of: string | null
  readonly state: JobState
  readonly attempt: number
  readonly devices: string | null
  readonly failures: string | null
  /** The device of the current attempt. */
  readonly holder: string | null
  /** Number of the attempt's last stored event. */
  readonly heard_n: number
  /** Of the current attempt's lines in the history. */
  readonly attempt_bytes: number
  readonly not_before_ms: number | null
  readonly run_by_ms: number | null
  readonly lost_at_ms: number | null
  readonly error: string | null
  readonly result: string | null
  readonly finished_ms: number | null
}

// Not by a schema: each change of each job reads them.
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const numbersOfTerms = ['attempts', 'acceptMs', 'startMs', 'stepMs', 'runMs', 'lostAfterMs']
const isTerms = (value: unknown): value is JobTerms =>
  isObject(value) && numbersOfTerms.every((name) => Number.isFinite(value[name]))
const isNames = (value: unknown): value is string[] => Array.isArray(value) && value.every((name) => typeof name === 'string')
const isCounts = (value: unknown): value is Job['failures'] => isObject(value) && Object.values(value).every(Number.isInteger)
const isErrorOrNull = (value: unknown): value is JobError | null =>
  value === null || (isObject(value) && typeof value.code === 'string' && typeof value.message === 'string')

/** The row as the policy's input; undefined: it is damaged. */
export function jobOf(row: JobRow): Job | undefined {
  const terms = storedJson(row.terms)
  const devices = storedJson(row.devices ?? '[]')
  const failures = storedJson(row.failures ?? '{}')
  const error = storedJson(row.error ?? 'null')
  if (!isTerms(terms) || !isNames(devices) || !isCounts(failures) || !isErrorOrNull(error)) return undefined
  return {
    state: row.state,
    attempt: row.attempt,
    devices,
    failures,
    terms,
    endsByMs: row.ends_by_ms,
    dueMs: row.due_ms,
    notBeforeMs: row.not_before_ms,
    runByMs: row.run_by_ms,
    lostAtMs: row.lost_at_ms,
    error,
  }
}

/** The columns that the policy may have changed, in the order of `updateJob`. */
export function columnsOf(job: Job): readonly (string | number | null)[] {
  const { state, attempt, devices, failures, dueMs, notBeforeMs, runByMs, lostAtMs, error } = job
  const errorJson = error === null ? null : JSON.stringify(error)
  const attempts = [state, attempt, JSON.stringify(devices), JSON.stringify(failures), holderOf(job)]
  return [...attempts, dueMs, notBeforeMs, runByMs, lostAtMs, errorJson]
}

export const updateJob = `UPDATE jobs SET state = ?, attempt = ?, devices = ?, failures = ?, holder = ?,
  due_ms = ?, not_before_ms = ?, run_by_ms = ?, lost_at_ms = ?, error = ?,
  target = ?, heard_n = ?, attempt_bytes = ?, result = ?, finished_ms = ? WHERE n = ?`

export const setAsideJob = `UPDATE jobs SET state = 'FAILED', holder = NULL, due_ms = NULL, not_before_ms = NULL, run_by_ms = NULL,
  lost_at_ms = NULL, error = ?, finished_ms = ? WHERE n = ?`
