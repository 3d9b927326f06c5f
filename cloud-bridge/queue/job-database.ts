import type { Random } from '../../core/kit/base/random.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { holderOf, isTerminal, type Job, type JobEffect, type JobError, type JobInput } from '../../core/policy/jobs/job.ts'
import { nextJob } from '../../core/policy/jobs/next-job.ts'
import type { StorageLimits } from '../../core/policy/jobs/stored-bytes.ts'
import { JobLoads } from './job-loads.ts'
import { openJobNames } from './job-names.ts'
import { columnsOf, damagedError, type JobRow, jobOf, setAsideJob, storedBytes, updateJob } from './job-tables.ts'

/** A message that an attempt's device must receive. */
export type AttemptEffect = { readonly job: string } & Exclude<JobEffect, { kind: 'storeResult' }>

/** What the history and the job store beside the policy's own fields. */
export interface ReportedData {
  /** A piece of the answer, the result or the error. */
  readonly data: Readonly<Record<string, unknown>>
  /** The event's number in its attempt. */
  readonly n: number
}

/** How a job has changed, once that is stored. */
export interface JobChange extends Pick<Job, 'state' | 'failures'> {
  readonly job: string
  readonly error: JobError | null
  /** What a device has reported: a piece of the answer or the result. */
  readonly data: ReportedData['data']
}

/** What a change of a job has done. */
export interface Applied {
  readonly effects: AttemptEffect[]
  readonly isChanged: boolean
  /** The job is damaged, and has ended for it. */
  readonly isSetAside?: boolean
  /** Bytes that it has stored. */
  readonly bytes: number
}

/** The job tables, and the only way in which a job changes: a step of the policy, stored together with its history. */
export class JobDatabase {
  readonly store: Store
  readonly limits: StorageLimits
  readonly loads: JobLoads
  readonly #random: Random
  /** Of the transaction. */
  #changes: JobChange[] = []
  #onChanged: ((change: JobChange) => void) | undefined
  readonly #names
  readonly #transaction
  readonly #byNumber
  readonly #heldBy
  readonly #update
  readonly #setAside
  readonly #addEvent
  readonly #addShare

  /**
   * @param store must have the tables of `jobTables`
   * @param random jitter of retry delays
   */
  constructor(store: Store, random: Random, limits: StorageLimits) {
    this.store = store
    this.limits = limits
    this.loads = new JobLoads(store)
    this.#random = random
    this.#names = openJobNames(store)
    this.#transaction = store.transaction((work: () => unknown) => work())
    this.#byNumber = store.prepare<[number], JobRow>('SELECT * FROM jobs WHERE n = ?')
    this.#heldBy = store.prepare<[string], JobRow>('SELECT * FROM jobs WHERE holder = ? ORDER BY n')
    this.#update = store.prepare(updateJob)
    this.#setAside = store.prepare(setAsideJob)
    this.#addEvent = store.prepare(
      `INSERT INTO job_events (job, seq, at_ms, attempt, device, type, data)
       VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM job_events WHERE job = ?), ?, ?, ?, ?, ?)`,
    )
    this.#addShare = store.prepare<[string, number, number, number]>(
      `INSERT INTO job_shares (device, job, bytes, owns) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, owns = excluded.owns`,
    )
  }

  /** @param onChanged called with each change of a job, in order, once it is stored. It must not change jobs */
  follow(onChanged: (change: JobChange) => void): void {
    this.#onChanged = onChanged
  }

  /** Runs `work` in one transaction, which is on disk on return. */
  transaction<T>(work: () => T): T {
    try {
      const result = this.#transaction.immediate(work) as T
      this.loads.commit()
      if (this.#onChanged) for (const change of this.#changes) this.#onChanged(change)
      return result
    } catch (error) {
      this.loads.rollBack()
      throw error
    } finally {
      this.#changes = []
    }
  }

  idOf(n: number): string {
    return this.#names.idOf(n)
  }

  numberOf(id: string): number | undefined {
    return this.#names.numberOf(id)
  }

  rowOf(id: string): JobRow | undefined {
    const n = this.numberOf(id)
    return n === undefined ? undefined : this.#byNumber.get(n)
  }

  /** The jobs that a device holds, the oldest first. */
  heldBy(device: string): JobRow[] {
    return this.loads.isIdle(device) ? [] : this.#heldBy.all(device)
  }

  /** Stores the job's next state and a line of its history. Call it inside a transaction. */
  apply(row: JobRow, input: JobInput, nowMs: number, reported?: ReportedData): Applied {
    const before = jobOf(row)
    if (!before) return this.setAside(row, nowMs)
    const { job, effects } = nextJob(before, input, nowMs, this.#random)
    const id = this.idOf(row.n)
    const messages = effects.flatMap((effect) => (effect.kind === 'storeResult' ? [] : [{ job: id, ...effect }]))
    if (job === before) return { effects: messages, isChanged: false, bytes: 0 }
    const { data = {}, n = row.heard_n } = reported ?? {}
    const result = effects.length > messages.length ? JSON.stringify(data) : null
    const line = this.#historyLine(row, before, job, input, result === null ? data : undefined)
    const isSameAttempt = job.attempt === row.attempt && job.state !== 'QUEUED'
    const attemptBytes = (job.attempt === row.attempt ? row.attempt_bytes : 0) + (line?.bytes ?? 0)
    const resultBytes = result === null ? 0 : storedBytes(result)
    // A job that allows no replacement waits for its first device.
    const target = row.target ?? (job.terms.replace ? null : (job.devices[0] ?? null))
    const finishedMs = isTerminal(job.state) ? Math.round(nowMs) : null
    const [heldBefore, holder] = [holderOf(before), holderOf(job)]
    const isHeld = holder !== null
    if (heldBefore !== holder) this.loads.move({ kind: row.kind, from: heldBefore, to: holder })
    if (job.state === 'QUEUED' && job.notBeforeMs === null) this.loads.onReady(row.kind, target)
    const numbers = [isSameAttempt ? n : 0, isHeld ? attemptBytes : 0]
    this.#update.run(...columnsOf(job), target, ...numbers, result, finishedMs, row.n)
    if (line) this.#addEvent.run(row.n, row.n, Math.round(nowMs), line.attempt, line.device, line.type, line.json)
    this.#changes.push({ job: id, state: job.state, failures: job.failures, error: job.error, data })
    if (!isHeld && (finishedMs !== null || attemptBytes > 0))
      this.#storeShares(row, before, input, { attemptBytes, resultBytes, isFinished: finishedMs !== null })
    return { effects: messages, isChanged: true, bytes: (line?.bytes ?? 0) + resultBytes }
  }

  /** Ends a job of which a part is damaged, so that the others go on. Call it inside a transaction. */
  setAside(row: JobRow, nowMs: number): Applied {
    if (isTerminal(row.state)) return { effects: [], isChanged: false, bytes: 0 }
    const { n, kind, attempt, holder, target } = row
    const json = JSON.stringify(damagedError)
    this.#setAside.run(json, Math.round(nowMs), n)
    this.#addEvent.run(n, n, Math.round(nowMs), attempt, holder, 'failed', JSON.stringify({ error: damagedError }))
    this.#addShare.run(holder ?? '', n, storedBytes(row.input) + row.attempt_bytes, 1)
    if (holder === null) this.loads.onSetAside(kind, target)
    else this.loads.move({ kind, from: holder, to: null })
    const job = this.idOf(n)
    this.#changes.push({ job, state: 'FAILED', failures: {}, error: damagedError, data: {} })
    return {
      effects: holder === null ? [] : [{ kind: 'cancelAttempt', job, device: holder, attempt }],
      isChanged: true,
      isSetAside: true,
      bytes: storedBytes(json),
    }
  }

  /**
   * The line of the history; undefined: the change needs none, or there is no space for one that may be missing.
   * @param data undefined: it is the result, which the job itself stores
   */
  #historyLine(row: JobRow, before: Job, job: Job, input: JobInput, data: ReportedData['data'] | undefined) {
    const type = historyType(before, job, input, data ?? {})
    if (type === undefined) return undefined
    const error = type === 'queued' || isTerminal(job.state) ? { error: job.error } : {}
    const json = JSON.stringify(data && { ...data, ...error }) ?? '{}'
    const bytes = storedBytes(json)
    if (optionalLines.has(type) && row.attempt_bytes + bytes > this.limits.attemptBytes) return undefined
    const device = input.kind === 'report' || input.kind === 'dispatch' ? input.device : (before.devices.at(-1) ?? null)
    const attempt = input.kind === 'report' ? input.attempt : job.attempt
    return { type, json, bytes, device, attempt }
  }

  /** An attempt or the whole job has ended: counts what it stores for its devices. */
  #storeShares(
    row: JobRow,
    before: Job,
    input: JobInput,
    { attemptBytes, resultBytes, isFinished }: { attemptBytes: number; resultBytes: number; isFinished: boolean },
  ): void {
    const holder = holderOf(before)
    const author = input.kind === 'report' ? input.device : (before.devices.at(-1) ?? '')
    const ownBytes = resultBytes + (isFinished ? storedBytes(row.input) : 0)
    const isOne = holder === null || holder === author
    this.#addShare.run(author, row.n, ownBytes + (isOne ? attemptBytes : 0), Number(isFinished))
    if (!isOne) this.#addShare.run(holder, row.n, attemptBytes, 0)
  }
}

/** Lines that are left out once the attempt has stored as much as it may. */
const optionalLines: ReadonlySet<string> = new Set(['progress', 'away', 'back'])

/** The type of the history line for a change; undefined: the change needs none. */
function historyType(before: Job, after: Job, input: JobInput, data: object): string | undefined {
  if (input.kind === 'report' && input.report.type === 'progress')
    return 'sentence' in data ? 'sentence' : 'text' in data ? 'text' : 'progress'
  if (after.state !== before.state) return after.state.toLowerCase()
  if (input.kind === 'absent') return 'away'
  if (input.kind === 'present' && before.lostAtMs !== null) return 'back'
  return undefined
}
