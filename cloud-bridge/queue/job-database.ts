import { randomBytes } from 'node:crypto'
import type { Random } from '../../core/base/random.ts'
import { isTerminal, type Job, type JobEffect, type JobInput } from '../../core/policy/jobs/job.ts'
import { nextJob } from '../../core/policy/jobs/next-job.ts'
import type { Store } from '../../core/store/open-database.ts'
import { columnsOf, type JobRow, jobOf, updateJob } from './job-tables.ts'

/** A message that an attempt's device must receive. */
export type AttemptEffect = { readonly job: string } & Exclude<JobEffect, { kind: 'storeResult' }>

/** What the history and the job store beside the policy's own fields. */
export interface ReportedData {
  /** A piece of the answer, the result or the error. */
  readonly data: Readonly<Record<string, unknown>>
  /** The event's number in its attempt. */
  readonly n: number
}

/** The job tables, and the only way in which a job changes: a step of the policy, stored together with its history. */
export class JobDatabase {
  readonly store: Store
  readonly #random: Random
  /** Identifies this database, so that a device never takes a job of another database for one of this. */
  readonly #name: string
  readonly #transaction
  readonly #byNumber
  readonly #update
  readonly #addEvent

  /**
   * @param store must have the tables of `jobTables`
   * @param random jitter of retry delays
   */
  constructor(store: Store, random: Random) {
    this.store = store
    this.#random = random
    store.prepare('INSERT INTO job_store (id, name) VALUES (1, ?) ON CONFLICT DO NOTHING').run(randomBytes(4).toString('hex'))
    this.#name = store.prepare<[], { name: string }>('SELECT name FROM job_store').get()?.name ?? ''
    this.#transaction = store.transaction((work: () => unknown) => work())
    this.#byNumber = store.prepare<[number], JobRow>('SELECT * FROM jobs WHERE n = ?')
    this.#update = store.prepare(updateJob)
    this.#addEvent = store.prepare(
      `INSERT INTO job_events (job, seq, at_ms, attempt, device, type, data)
       VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM job_events WHERE job = ?), ?, ?, ?, ?, ?)`,
    )
  }

  /** Runs `work` in one transaction, which is on disk on return. */
  transaction<T>(work: () => T): T {
    return this.#transaction.immediate(work) as T
  }

  idOf(n: number): string {
    return `${this.#name}-${n}`
  }

  numberOf(id: string): number | undefined {
    const [name, n] = id.split('-')
    return name === this.#name && n !== undefined && /^\d{1,15}$/.test(n) ? Number(n) : undefined
  }

  rowOf(id: string): JobRow | undefined {
    const n = this.numberOf(id)
    return n === undefined ? undefined : this.#byNumber.get(n)
  }

  /** Stores the job's next state and a line of its history. Call it inside a transaction. */
  apply(row: JobRow, input: JobInput, nowMs: number, reported?: ReportedData): { effects: AttemptEffect[]; isChanged: boolean } {
    const before = jobOf(row)
    const { job, effects } = nextJob(before, input, nowMs, this.#random)
    const id = this.idOf(row.n)
    const messages = effects.flatMap((effect) => (effect.kind === 'storeResult' ? [] : [{ job: id, ...effect }]))
    if (job === before) return { effects: messages, isChanged: false }
    const hasResult = effects.length > messages.length
    const { data = {}, n = row.heard_n } = reported ?? {}
    const lastEvent = job.attempt === row.attempt && job.state !== 'QUEUED' ? n : 0
    // A job that allows no replacement waits for its first device.
    const target = row.target ?? (job.terms.replace ? null : (job.devices[0] ?? null))
    const finishedMs = isTerminal(job.state) ? Math.round(nowMs) : null
    const result = hasResult ? JSON.stringify(data) : null
    this.#update.run(...columnsOf(job), target, lastEvent, result, finishedMs, row.n)
    const type = historyType(before, job, input, data)
    if (type !== undefined) {
      const error = type === 'queued' || finishedMs !== null ? { error: job.error } : {}
      const details = hasResult ? {} : { ...data, ...error }
      const device = input.kind === 'report' || input.kind === 'dispatch' ? input.device : (before.devices.at(-1) ?? null)
      const attempt = input.kind === 'report' ? input.attempt : job.attempt
      this.#addEvent.run(row.n, row.n, Math.round(nowMs), attempt, device, type, JSON.stringify(details))
    }
    return { effects: messages, isChanged: true }
  }
}

/** The type of the history line for a change; undefined: the change needs none. */
function historyType(before: Job, after: Job, input: JobInput, data: object): string | undefined {
  if (input.kind === 'report' && input.report.type === 'progress') return 'text' in data ? 'text' : 'progress'
  if (after.state !== before.state) return after.state.toLowerCase()
  if (input.kind === 'absent') return 'away'
  if (input.kind === 'present' && before.lostAtMs !== null) return 'back'
  return undefined
}
