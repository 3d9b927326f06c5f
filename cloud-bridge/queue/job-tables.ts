import { holderOf, type Job, type JobError, type JobState, type JobTerms } from '../../core/policy/jobs/job.ts'
import type { JobSubmission } from '../../core/protocol/jobs.ts'

/** Jobs that came to what they were for, or that nobody wanted any more; and dead letters. */
export const isDone = "finished_ms IS NOT NULL AND state IN ('SUCCEEDED', 'CANCELED')"
export const isDead = "finished_ms IS NOT NULL AND state IN ('FAILED', 'REJECTED', 'TIMED_OUT')"

/**
 * Migrations. A job is one row; partial indexes hold only what is waited for, so that a million finished jobs slow
 * nobody down; what is false of a new job stands first in their conditions. The newest row is never deleted, so that `n` is
 * never given twice. `job_events` is what has happened to a job, the pieces of its answer among it.
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
]

/** A row of `jobs`. */
export interface JobRow {
  readonly n: number
  readonly kind: string
  readonly target: string | null
  readonly priority: number
  readonly key: string | null
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
  readonly holder: string | null
  readonly heard_n: number
  readonly not_before_ms: number | null
  readonly run_by_ms: number | null
  readonly lost_at_ms: number | null
  readonly error: string | null
  readonly result: string | null
  readonly finished_ms: number | null
}

/** A submission as it is stored. */
export interface NewJob {
  readonly kind: string
  readonly target: string | null
  readonly priority: number
  readonly key: string | null
  /** JSON. */
  readonly input: string
  /** JSON of JobTerms. */
  readonly terms: string
  readonly deadlineMs: number
}

export function newJob(submission: JobSubmission): NewJob {
  const { kind, device = null, priority, key = null, input, deadlineS } = submission
  const texts = { input: JSON.stringify(input), terms: JSON.stringify(termsOf(submission)) }
  return { kind, target: device, priority, key, ...texts, deadlineMs: Math.round(deadlineS * 1_000) }
}

function termsOf({ attempts, timeouts, disconnect }: JobSubmission): JobTerms {
  const ms = (seconds: number) => Math.round(seconds * 1_000)
  return {
    attempts,
    acceptMs: ms(timeouts.acceptS),
    startMs: ms(timeouts.startS),
    stepMs: ms(timeouts.stepS),
    runMs: ms(timeouts.runS),
    lostAfterMs: ms(disconnect.lostAfterS),
    replace: disconnect.replace,
    keep: disconnect.keep,
  }
}

/** What the policy decides about. */
export function jobOf(row: JobRow): Job {
  return {
    state: row.state,
    attempt: row.attempt,
    devices: JSON.parse(row.devices ?? '[]') as string[],
    failures: JSON.parse(row.failures ?? '{}') as Job['failures'],
    terms: JSON.parse(row.terms) as JobTerms,
    endsByMs: row.ends_by_ms,
    dueMs: row.due_ms,
    notBeforeMs: row.not_before_ms,
    runByMs: row.run_by_ms,
    lostAtMs: row.lost_at_ms,
    error: row.error === null ? null : (JSON.parse(row.error) as JobError),
  }
}

/** What the policy may have changed, as the columns of `updateJob`. */
export function columnsOf(job: Job): readonly (string | number | null)[] {
  const { state, attempt, devices, failures, dueMs, notBeforeMs, runByMs, lostAtMs, error } = job
  const told = error === null ? null : JSON.stringify(error)
  const names = [state, attempt, JSON.stringify(devices), JSON.stringify(failures), holderOf(job)]
  return [...names, dueMs, notBeforeMs, runByMs, lostAtMs, told]
}

export const updateJob = `UPDATE jobs SET state = ?, attempt = ?, devices = ?, failures = ?, holder = ?,
  due_ms = ?, not_before_ms = ?, run_by_ms = ?, lost_at_ms = ?, error = ?,
  target = ?, heard_n = ?, result = ?, finished_ms = ? WHERE n = ?`
