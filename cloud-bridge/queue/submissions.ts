import { isTerminal, type JobTerms } from '../../core/policy/jobs/job.ts'
import type { JobSubmission } from '../../core/wire/protocol/jobs.ts'
import type { AttemptEffect, JobDatabase } from './job-database.ts'
import type { JobRow } from './job-tables.ts'

export interface SubmittedJob {
  readonly id: string
  /** False: the idempotency key belongs to an earlier job, which this is. */
  readonly isNew: boolean
}

/** A submission as stored. */
export interface NewJob extends Pick<JobRow, 'kind' | 'target' | 'priority' | 'key' | 'input' | 'terms'> {
  readonly deadlineMs: number
}

/** Rows of one INSERT: a statement costs about as much as a row. */
const rowsPerInsert = 10
const insertJobs =
  'INSERT INTO jobs (kind, target, priority, key, input, terms, submitted_ms, ends_by_ms, due_ms, retry_of) VALUES'
const placeholders = '(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
type Values = (string | number | null)[]

/** What clients change. Times are the wall clock in ms. */
export interface JobSubmissions {
  /** @returns one entry for each job, in order */
  submit(jobs: readonly NewJob[], nowMs: number): SubmittedJob[]
  /** Submits the same work as a new job. @returns undefined if the job is unknown or has not ended */
  retry(id: string, nowMs: number): SubmittedJob | undefined
  /** @returns undefined if the job is unknown; `canceled` is false if it had ended */
  cancel(id: string, nowMs: number): { readonly canceled: boolean; readonly effects: AttemptEffect[] } | undefined
  /** The job that was submitted with this idempotency key. */
  idOfKey(key: string): string | undefined
}

export function createSubmissions(db: JobDatabase): JobSubmissions {
  const insertOne = db.store.prepare<[Values]>(`${insertJobs} ${placeholders}`)
  const insertMany = db.store.prepare<[Values]>(
    `${insertJobs} ${Array.from({ length: rowsPerInsert }, () => placeholders).join(', ')}`,
  )
  const byKey = db.store.prepare<[string], { n: number }>('SELECT n FROM jobs WHERE key = ?')

  function insert(job: NewJob, nowMs: number, retryOf: string | null): SubmittedJob {
    const values: Values = []
    pushValues(values, job, nowMs, retryOf)
    db.loads.onReady(job.kind, job.target)
    const { lastInsertRowid } = insertOne.run(values)
    return { id: db.idOf(Number(lastInsertRowid)), isNew: true }
  }

  function insertOrFind(job: NewJob, nowMs: number): SubmittedJob {
    const known = job.key === null ? undefined : byKey.get(job.key)
    return known ? { id: db.idOf(known.n), isNew: false } : insert(job, nowMs, null)
  }

  /** Whether `rowsPerInsert` jobs from `from` on can be inserted together. */
  function isBatch(jobs: readonly NewJob[], from: number): boolean {
    for (let at = from; at < from + rowsPerInsert; at++) if (jobs[at]?.key !== null) return false
    return true
  }

  /** The hot path of a batched submission: it allocates as little as possible. */
  function insertBatch(jobs: readonly NewJob[], from: number, nowMs: number, submitted: SubmittedJob[]): void {
    const values: Values = []
    for (let at = from; at < from + rowsPerInsert; at++) {
      const job = jobs[at]!
      pushValues(values, job, nowMs, null)
      db.loads.onReady(job.kind, job.target)
    }
    const last = Number(insertMany.run(values).lastInsertRowid)
    for (let n = last - rowsPerInsert + 1; n <= last; n++) submitted.push({ id: db.idOf(n), isNew: true })
  }

  return {
    submit: (jobs, nowMs) =>
      db.transaction(() => {
        const submitted: SubmittedJob[] = []
        while (submitted.length < jobs.length) {
          const at = submitted.length
          if (isBatch(jobs, at)) insertBatch(jobs, at, nowMs, submitted)
          else submitted.push(insertOrFind(jobs[at]!, nowMs))
        }
        return submitted
      }),
    retry: (id, nowMs) =>
      db.transaction(() => {
        const row = db.rowOf(id)
        if (!row || !isTerminal(row.state)) return undefined
        return insert({ ...row, key: null, deadlineMs: row.ends_by_ms - row.submitted_ms }, nowMs, id)
      }),
    cancel: (id, nowMs) =>
      db.transaction(() => {
        const row = db.rowOf(id)
        if (!row) return undefined
        const { effects, isChanged } = db.apply(row, { kind: 'cancel' }, nowMs)
        return { canceled: isChanged, effects }
      }),
    idOfKey(key) {
      const known = byKey.get(key)
      return known && db.idOf(known.n)
    },
  }
}

/** Adds the values of `placeholders`. */
function pushValues(values: Values, job: NewJob, nowMs: number, retryOf: string | null): void {
  const { kind, target, priority, key, input, terms, deadlineMs } = job
  const submittedMs = Math.round(nowMs)
  const endsByMs = submittedMs + deadlineMs
  values.push(kind, target, priority, key, input, terms, submittedMs, endsByMs, endsByMs, retryOf)
}

export function newJob(submission: JobSubmission): NewJob {
  const { kind, device = null, priority, key = null, input, deadlineS } = submission
  const json = { input: JSON.stringify(input), terms: JSON.stringify(termsOf(submission)) }
  return { kind, target: device, priority, key, ...json, deadlineMs: msOf(deadlineS) }
}

const msOf = (seconds: number) => Math.round(seconds * 1_000)

function termsOf({ attempts, timeouts, disconnect }: JobSubmission): JobTerms {
  return {
    attempts,
    acceptMs: msOf(timeouts.acceptS),
    startMs: msOf(timeouts.startS),
    stepMs: msOf(timeouts.stepS),
    runMs: msOf(timeouts.runS),
    lostAfterMs: msOf(disconnect.lostAfterS),
    replace: disconnect.replace,
    keep: disconnect.keep,
  }
}
