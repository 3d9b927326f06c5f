import { randomBytes } from 'node:crypto'
import type { Random } from '../../core/base/random.ts'
import {
  isFinal,
  isTerminal,
  type Job,
  type JobEffect,
  type JobInput,
  type JobReport,
  type JobState,
  nextJob,
} from '../../core/policy/jobs/job.ts'
import { type JobKind, resultProblem } from '../../core/protocol/jobs.ts'
import type { Store } from '../../core/store/open-database.ts'
import { columnsOf, isDead, isDone, type JobRow, jobOf, type NewJob, updateJob } from './job-tables.ts'

export interface Submitted {
  readonly id: string
  /** False: there was one under this key. */
  readonly isNew: boolean
}

/** An attempt on its way to a device. */
export interface Dispatch {
  readonly job: string
  readonly attempt: number
  readonly device: string
  readonly kind: string
  readonly input: unknown
}

/** A device that can take jobs now. */
export interface AvailableDevice {
  readonly device: string
  readonly kinds: readonly string[]
  /** How many more. */
  readonly freeSlots: number
}

/** An effect of the policy, and whose. */
export type AttemptEffect = { readonly job: string } & Exclude<JobEffect, { kind: 'storeResult' }>

/** What a device has said, understood. */
export interface DeviceReport {
  readonly job: string
  readonly device: string
  readonly attempt: number
  /** Counts the events of the attempt. */
  readonly n: number
  readonly report: JobReport
  /** What is stored with the event: a piece of the answer, the result, the error. */
  readonly data: Readonly<Record<string, unknown>>
}

export interface JobRecord {
  readonly id: string
  readonly kind: string
  readonly state: JobState
  readonly attempt: number
  /** That has it now. */
  readonly device: string | null
  /** That alone may do it. */
  readonly boundTo: string | null
  readonly priority: number
  readonly key: string | null
  readonly submittedAt: string
  readonly deadlineAt: string
  readonly finishedAt: string | null
  readonly retryOf: string | null
  readonly failures: Job['failures']
  readonly error: Job['error']
}

export interface JobDetails extends JobRecord {
  readonly input: unknown
  readonly result: unknown
  /** The device of each attempt. */
  readonly devices: readonly string[]
}

/** What has happened to a job; `seq` counts from 1. */
export interface JobHistoryEvent {
  readonly seq: number
  readonly at: string
  readonly attempt: number
  readonly device: string | null
  readonly type: string
  readonly data: unknown
}

export interface JobFilter {
  readonly state?: JobState | undefined
  readonly kind?: JobKind | undefined
  /** Those that came to nothing. */
  readonly dead?: boolean | undefined
  readonly limit: number
}

/** States of what came to nothing. */
const deadStates: ReadonlySet<JobState | undefined> = new Set(['FAILED', 'REJECTED', 'TIMED_OUT'])

/** How long what is finished is kept: all of it, history and idempotency key too. */
export interface Retention {
  /** Of jobs that succeeded or were canceled. */
  readonly doneMs: number
  /** Of those that came to nothing. */
  readonly deadMs: number
  /** At most so many of either. */
  readonly maxJobs: number
  /** Of the whole database: where it is larger the oldest go, so that it falls below. */
  readonly maxBytes: number
}

/** Whatever had finished by then is kept no longer; wall clock. */
export interface Cutoffs {
  readonly doneMs: number
  readonly deadMs: number
}

/** Jobs removed in one transaction: few enough to keep nobody waiting. */
const mostPruned = 50
/** Jobs at hand elsewhere that are looked through for an idle device's kinds. */
const mostBehindWork = 256
/** Deadlines handled in one transaction. */
const mostDue = 256
/** Rows that one statement inserts: a statement costs as much as a row. */
const rowsAtOnce = 10
const insertJobs =
  'INSERT INTO jobs (kind, target, priority, key, input, terms, submitted_ms, ends_by_ms, due_ms, retry_of) VALUES'
const placeholders = '(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'

/**
 * The bridge's jobs: its only truth about them. Every call is one transaction, on disk when it returns; what it returns
 * is to be said to devices after that, and may be said twice.
 * @param random of the retries' waits
 */
export class JobStore {
  readonly #store: Store
  readonly #random: Random
  /** Of this database: a device must not take a job of another one for one of these. */
  readonly #name: string
  readonly #statements: ReturnType<typeof prepare>
  readonly #submitAll: { immediate(jobs: readonly NewJob[], nowMs: number): Submitted[] }

  /** @param store must have had `jobTables` */
  constructor(store: Store, random: Random) {
    this.#store = store
    this.#random = random
    store.prepare('INSERT INTO job_store (id, name) VALUES (1, ?) ON CONFLICT DO NOTHING').run(randomBytes(4).toString('hex'))
    this.#name = store.prepare<[], { name: string }>('SELECT name FROM job_store').get()?.name ?? ''
    this.#statements = prepare(store)
    this.#submitAll = store.transaction((jobs: readonly NewJob[], nowMs: number) => this.#insertAll(jobs, nowMs))
  }

  /** @param nowMs wall clock, as everywhere here @returns one for each, in their order */
  submit(jobs: readonly NewJob[], nowMs: number): Submitted[] {
    return this.#submitAll.immediate(jobs, nowMs)
  }

  #insertAll(jobs: readonly NewJob[], nowMs: number): Submitted[] {
    const { byKey, insertMany } = this.#statements
    const submitted: Submitted[] = []
    for (let at = 0; at < jobs.length; ) {
      if (at + rowsAtOnce <= jobs.length) {
        const values: (string | number | null)[] = []
        const end = at + rowsAtOnce
        while (at < end && jobs[at]!.key === null) pushValues(values, jobs[at++]!, nowMs, null)
        if (at === end) {
          const last = Number(insertMany.run(values).lastInsertRowid)
          for (let n = last - rowsAtOnce + 1; n <= last; n++) submitted.push({ id: this.#idOf(n), isNew: true })
          continue
        }
        at = end - rowsAtOnce
      }
      const job = jobs[at++]!
      const known = job.key === null ? undefined : byKey.get(job.key)
      submitted.push(known ? { id: this.#idOf(known.n), isNew: false } : this.#insert(job, nowMs, null))
    }
    return submitted
  }

  #insert(job: NewJob, nowMs: number, retryOf: string | null): Submitted {
    const values: (string | number | null)[] = []
    pushValues(values, job, nowMs, retryOf)
    const { lastInsertRowid } = this.#statements.insert.run(values)
    return { id: this.#idOf(Number(lastInsertRowid)), isNew: true }
  }

  /** The same work again, as a job of its own. @returns undefined where there is no such job, or it has not ended */
  retry(id: string, nowMs: number): Submitted | undefined {
    return this.#store
      .transaction(() => {
        const row = this.#row(id)
        if (!row || !isTerminal(row.state)) return undefined
        return this.#insert({ ...row, key: null, deadlineMs: row.ends_by_ms - row.submitted_ms }, nowMs, id)
      })
      .immediate()
  }

  /** Gives waiting jobs to devices: the highest priority first, then the oldest; one's own before anybody's. */
  claim(takers: readonly AvailableDevice[], nowMs: number): Dispatch[] {
    const { openJobs, boundJobs, nextBound } = this.#statements
    return this.#store
      .transaction(() => {
        const dispatched: Dispatch[] = []
        const open: JobRow[] = []
        const free = takers.map((taker) => ({ ...taker }))
        const give = (row: JobRow, taker: { device: string; freeSlots: number }) => {
          const { effects } = this.#apply(row, { kind: 'dispatch', device: taker.device }, nowMs, {})
          if (effects.length === 0) return
          taker.freeSlots -= 1
          const { kind, input } = row
          dispatched.push({
            job: this.#idOf(row.n),
            attempt: row.attempt + 1,
            device: taker.device,
            kind,
            input: JSON.parse(input) as unknown,
          })
        }
        // From one device that is waited for to the next: most have no jobs of their own.
        for (let target = nextBound.get('')?.target; target != null; target = nextBound.get(target)?.target) {
          const taker = free.find(({ device }) => device === target)
          if (taker && taker.freeSlots > 0) for (const row of boundJobs.all(target, taker.freeSlots)) give(row, taker)
        }
        const freeSlots = free.reduce((sum, taker) => sum + Math.max(0, taker.freeSlots), 0)
        const kinds = new Set(free.filter((taker) => taker.freeSlots > 0).flatMap((taker) => taker.kinds))
        for (const kind of kinds) open.push(...openJobs.all(kind, freeSlots))
        open.sort((a, b) => b.priority - a.priority || a.n - b.n)
        for (const row of open) {
          const able = free.filter((taker) => taker.freeSlots > 0 && taker.kinds.includes(row.kind))
          const [best] = able.sort((a, b) => b.freeSlots - a.freeSlots)
          if (best) give(row, best)
        }
        return dispatched
      })
      .immediate()
  }

  /**
   * Gives idle devices what others have at hand but have not begun, being at other work. What is one device's alone stays.
   * @returns what is to be sent, and what those who had it are to be told
   */
  rebalance(idle: readonly AvailableDevice[], nowMs: number): { dispatched: Dispatch[]; orders: AttemptEffect[] } {
    const waiting = idle.length === 0 ? [] : this.#statements.behindWork.all(mostBehindWork)
    const dispatched: Dispatch[] = []
    const orders: AttemptEffect[] = []
    if (waiting.length === 0) return { dispatched, orders }
    return this.#store
      .transaction(() => {
        const free = [...idle]
        for (const row of waiting) {
          const at = free.findIndex(({ kinds }) => kinds.includes(row.kind))
          if (at < 0) continue
          const [taker] = free.splice(at, 1)
          const { effects } = this.#apply(row, { kind: 'requeue' }, nowMs, {})
          orders.push(...this.#ordersOf(this.#idOf(row.n), effects))
          const back = this.#statements.byNumber.get(row.n)
          if (!back || !taker) continue
          this.#apply(back, { kind: 'dispatch', device: taker.device }, nowMs, {})
          const given = this.dispatchOf(this.#idOf(row.n))
          if (given) dispatched.push(given)
        }
        return { dispatched, orders }
      })
      .immediate()
  }

  /**
   * Takes what devices have said, all in one commit; repeats change nothing. A device may be told of each that it is
   * stored, except those in `gaps`: something before them has not come.
   */
  storeReports(
    said: readonly DeviceReport[],
    nowMs: number,
  ): { orders: AttemptEffect[]; gaps: ReadonlySet<DeviceReport>; changed: ReadonlySet<string> } {
    return this.#store
      .transaction(() => {
        const orders: AttemptEffect[] = []
        const gaps = new Set<DeviceReport>()
        const changed = new Set<string>()
        for (const one of said) {
          const row = this.#row(one.job)
          const { attempt, device, report, n } = one
          const isPiece = !isFinal(report)
          if (!row) {
            // Long forgotten here, and there: a broker that says things late has woken it.
            if (isPiece) orders.push({ kind: 'cancelAttempt', job: one.job, device, attempt })
            continue
          }
          const isCurrent = row.holder === device && row.attempt === attempt
          if (isCurrent && isPiece) {
            if (n <= row.heard_n) continue
            if (n > row.heard_n + 1) {
              gaps.add(one)
              continue
            }
          }
          const [heard, data] = validOf(row, one)
          const { effects, isChanged } = this.#apply(row, { kind: 'report', device, attempt, report: heard }, nowMs, data, n)
          if (isChanged) changed.add(one.job)
          orders.push(...this.#ordersOf(one.job, effects))
        }
        return { orders, gaps, changed }
      })
      .immediate()
  }

  /** A device has come or gone. */
  setPresence(device: string, isPresent: boolean, nowMs: number): AttemptEffect[] {
    const kind = isPresent ? 'present' : 'absent'
    return this.#store
      .transaction(() =>
        this.#statements.heldBy
          .all(device)
          .flatMap((row) => this.#ordersOf(this.#idOf(row.n), this.#apply(row, { kind, device }, nowMs, {}).effects)),
      )
      .immediate()
  }

  /** Nobody can be heard any more: whoever has a job counts as away. @returns the jobs of those that were there */
  markAllAbsent(nowMs: number): string[] {
    return this.#store
      .transaction(() =>
        this.#statements.held.all().flatMap((row) => {
          const { isChanged } = this.#apply(row, { kind: 'absent', device: row.holder ?? '' }, nowMs, {})
          return isChanged ? [this.#idOf(row.n)] : []
        }),
      )
      .immediate()
  }

  /** What is overdue; asked again until `changed` is empty. */
  applyDeadlines(nowMs: number): { orders: AttemptEffect[]; changed: string[] } {
    return this.#store
      .transaction(() => {
        const rows = this.#statements.due.all(nowMs, mostDue)
        const orders = rows.flatMap((row) =>
          this.#ordersOf(this.#idOf(row.n), this.#apply(row, { kind: 'tick' }, nowMs, {}).effects),
        )
        return { orders, changed: rows.map((row) => this.#idOf(row.n)) }
      })
      .immediate()
  }

  /** When `tick` has something to do; null: never, as things stand. */
  nextDeadlineMs(): number | null {
    return this.#statements.nextDue.get()?.due_ms ?? null
  }

  /** @returns undefined where there is no such job; `canceled` is false where it had ended */
  cancel(id: string, nowMs: number): { canceled: boolean; orders: AttemptEffect[] } | undefined {
    return this.#store
      .transaction(() => {
        const row = this.#row(id)
        if (!row) return undefined
        const { effects, isChanged } = this.#apply(row, { kind: 'cancel' }, nowMs, {})
        return { canceled: isChanged, orders: this.#ordersOf(id, effects) }
      })
      .immediate()
  }

  /** What `prune` is to remove, as things stand: it looks at as many index entries as there are finished jobs. */
  cutoffs({ doneMs, deadMs, maxJobs: mostJobs, maxBytes: mostBytes }: Retention, nowMs: number): Cutoffs {
    const { done, dead } = this.#statements
    const pragma = (name: string) => Number(this.#store.pragma(name, { simple: true }))
    const usedBytes = (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
    const surplus = Math.max(0, 1 - mostBytes / usedBytes)
    const of = ({ count, nth }: typeof done, keepMs: number) => {
      const jobs = count.get()?.count ?? 0
      const tooMany = Math.max(jobs - mostJobs, Math.ceil(jobs * surplus))
      const last = tooMany > 0 ? nth.get(tooMany - 1)?.finished_ms : undefined
      return Math.max(nowMs - keepMs, last ?? Number.NEGATIVE_INFINITY)
    }
    return { doneMs: of(done, doneMs), deadMs: of(dead, deadMs) }
  }

  /** Removes some of what is kept no longer, the oldest first. @returns how many jobs; 0: there are no more */
  prune({ doneMs, deadMs }: Cutoffs): number {
    const { done, dead, forget, forgetEvents } = this.#statements
    const old = [...done.oldest.all(doneMs, mostPruned), ...dead.oldest.all(deadMs, mostPruned)].slice(0, mostPruned)
    if (old.length === 0) return 0
    this.#store
      .transaction(() => {
        for (const { n } of old) {
          forgetEvents.run(n)
          forget.run(n)
        }
      })
      .immediate()
    return old.length
  }

  /** How many jobs each device has. */
  loads(): ReadonlyMap<string, number> {
    return new Map(this.#statements.loads.all().map(({ holder, count }) => [holder, count]))
  }

  /** What a device has now, the oldest first. */
  heldBy(device: string): JobRecord[] {
    return this.#statements.heldBy.all(device).map((row) => this.#recordOf(row))
  }

  /** Waiting, given to devices, and come to nothing (of these at most 10,000 are counted). */
  counts(): { queued: number; underWay: number; dead: number } {
    const { open, held, dead } = this.#statements.counts.get()!
    return { queued: open - held, underWay: held, dead }
  }

  /** To be sent once more: what may not have reached this device. */
  dispatchOf(id: string): Dispatch | undefined {
    const row = this.#row(id)
    if (!row || row.holder === null) return undefined
    const { attempt, holder: device, kind, input } = row
    return { job: id, attempt, device, kind, input: JSON.parse(input) as unknown }
  }

  /** Whether a job has been submitted under this idempotency key. */
  hasKey(key: string): boolean {
    return this.#statements.byKey.get(key) !== undefined
  }

  find(id: string): JobDetails | undefined {
    const row = this.#row(id)
    if (!row) return undefined
    const { input, result, devices } = row
    return {
      ...this.#recordOf(row),
      input: JSON.parse(input) as unknown,
      result: result === null ? null : (JSON.parse(result) as unknown),
      devices: JSON.parse(devices ?? '[]') as string[],
    }
  }

  /** The newest first. */
  list({ state, kind, dead, limit }: JobFilter): JobRecord[] {
    const isWaitedFor = state !== undefined && !isTerminal(state)
    const wanted = [
      // What is waited for is little beside what is kept: nobody is to wait until all of that was looked through.
      ...(isWaitedFor ? ['due_ms IS NOT NULL'] : []),
      ...(state === undefined ? [] : ['state = @state']),
      ...(kind === undefined ? [] : ['kind = @kind']),
      ...(dead || deadStates.has(state) ? [isDead] : []),
    ]
    const where = wanted.length === 0 ? '' : `WHERE ${wanted.join(' AND ')}`
    const rows = this.#store
      .prepare<[object], JobRow>(
        `SELECT * FROM jobs ${isWaitedFor ? 'INDEXED BY jobs_due' : ''} ${where} ORDER BY n DESC LIMIT @limit`,
      )
      .all({ state, kind, limit })
    return rows.map((row) => this.#recordOf(row))
  }

  /** The events after `seq`, in order. */
  events(id: string, seq: number, limit: number): JobHistoryEvent[] {
    const n = this.#numberOf(id)
    if (n === undefined) return []
    return this.#statements.events
      .all(n, seq, limit)
      .map(({ at_ms, data, ...event }) => ({ ...event, at: new Date(at_ms).toISOString(), data: JSON.parse(data) as unknown }))
  }

  #apply(
    row: JobRow,
    input: JobInput,
    nowMs: number,
    data: object,
    n?: number,
  ): { effects: readonly JobEffect[]; isChanged: boolean } {
    const before = jobOf(row)
    const { job, effects } = nextJob(before, input, nowMs, this.#random)
    if (job === before) return { effects, isChanged: false }
    const keeps = effects.some(({ kind }) => kind === 'storeResult')
    const heardN = job.attempt === row.attempt && job.state !== 'QUEUED' ? (n ?? row.heard_n) : 0
    // Where nobody may replace a device, its job waits for it.
    const target = row.target ?? (job.terms.replace ? null : (job.devices[0] ?? null))
    const finishedMs = isTerminal(job.state) ? Math.round(nowMs) : null
    const result = keeps ? JSON.stringify(data) : null
    this.#statements.update.run(...columnsOf(job), target, heardN, result, finishedMs, row.n)
    const type = happeningOf(before, job, input, data)
    if (type !== undefined) {
      const said = keeps ? {} : { ...data, ...(type === 'queued' || finishedMs !== null ? { error: job.error } : {}) }
      const by = input.kind === 'report' || input.kind === 'dispatch' ? input.device : (before.devices.at(-1) ?? null)
      const of = input.kind === 'report' ? input.attempt : job.attempt
      this.#statements.addEvent.run(row.n, row.n, Math.round(nowMs), of, by, type, JSON.stringify(said))
    }
    return { effects, isChanged: true }
  }

  #ordersOf(job: string, effects: readonly JobEffect[]): AttemptEffect[] {
    return effects.flatMap((effect) => (effect.kind === 'storeResult' ? [] : [{ job, ...effect }]))
  }

  #recordOf(row: JobRow): JobRecord {
    const at = (ms: number) => new Date(ms).toISOString()
    const { failures, error } = jobOf(row)
    return {
      id: this.#idOf(row.n),
      kind: row.kind,
      state: row.state,
      attempt: row.attempt,
      device: row.holder,
      boundTo: row.target,
      priority: row.priority,
      key: row.key,
      submittedAt: at(row.submitted_ms),
      deadlineAt: at(row.ends_by_ms),
      finishedAt: row.finished_ms === null ? null : at(row.finished_ms),
      retryOf: row.retry_of,
      failures,
      error,
    }
  }

  #row(id: string): JobRow | undefined {
    const n = this.#numberOf(id)
    return n === undefined ? undefined : this.#statements.byNumber.get(n)
  }

  #idOf(n: number): string {
    return `${this.#name}-${n}`
  }

  #numberOf(id: string): number | undefined {
    const [name, n] = id.split('-')
    return name === this.#name && n !== undefined && /^\d{1,15}$/.test(n) ? Number(n) : undefined
  }
}

const mostCounted = 10_000

/** The values of `placeholders`, for one row. */
function pushValues(to: (string | number | null)[], job: NewJob, nowMs: number, retryOf: string | null): void {
  const { kind, target, priority, key, input, terms, deadlineMs } = job
  const submittedMs = Math.round(nowMs)
  const endsByMs = submittedMs + deadlineMs
  to.push(kind, target, priority, key, input, terms, submittedMs, endsByMs, endsByMs, retryOf)
}

/** What was said, and what is stored with it: a result that cannot be one of that job is a failure. */
function validOf({ kind, input }: JobRow, { report, data }: DeviceReport): readonly [JobReport, object] {
  const fault = report.type === 'succeeded' ? resultProblem(kind, JSON.parse(input) as unknown, data) : undefined
  if (fault === undefined) return [report, data]
  const error = { code: 'JOB_FAILED', message: `the result of the device is none of ${kind}: ${fault}`.slice(0, 2_000) }
  return [{ type: 'failed', failure: 'failed', error }, {}]
}

/** What is worth a line in the job's history. */
function happeningOf(before: Job, after: Job, input: JobInput, data: object): string | undefined {
  if (input.kind === 'report' && input.report.type === 'progress') return 'text' in data ? 'text' : 'progress'
  if (after.state !== before.state) return after.state.toLowerCase()
  if (input.kind === 'absent') return 'away'
  if (input.kind === 'present' && before.lostAtMs !== null) return 'back'
  return undefined
}

function prepare(store: Store) {
  const finished = (which: string) => ({
    count: store.prepare<[], { count: number }>(`SELECT count(*) AS count FROM jobs WHERE ${which}`),
    nth: store.prepare<[number], { finished_ms: number }>(
      `SELECT finished_ms FROM jobs WHERE ${which} ORDER BY finished_ms LIMIT 1 OFFSET ?`,
    ),
    oldest: store.prepare<[number, number], { n: number }>(
      `SELECT n FROM jobs WHERE ${which} AND finished_ms <= ? AND n < (SELECT max(n) FROM jobs) ORDER BY finished_ms LIMIT ?`,
    ),
  })
  return {
    done: finished(isDone),
    dead: finished(isDead),
    forget: store.prepare<[number]>('DELETE FROM jobs WHERE n = ?'),
    forgetEvents: store.prepare<[number]>('DELETE FROM job_events WHERE job = ?'),
    insert: store.prepare<[(string | number | null)[]]>(`${insertJobs} ${placeholders}`),
    insertMany: store.prepare<[(string | number | null)[]]>(
      `${insertJobs} ${Array.from({ length: rowsAtOnce }, () => placeholders).join(', ')}`,
    ),
    update: store.prepare(updateJob),
    addEvent: store.prepare(
      `INSERT INTO job_events (job, seq, at_ms, attempt, device, type, data)
       VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM job_events WHERE job = ?), ?, ?, ?, ?, ?)`,
    ),
    byKey: store.prepare<[string], { n: number }>('SELECT n FROM jobs WHERE key = ?'),
    byNumber: store.prepare<[number], JobRow>('SELECT * FROM jobs WHERE n = ?'),
    openJobs: store.prepare<[string, number], JobRow>(
      `SELECT * FROM jobs WHERE state = 'QUEUED' AND not_before_ms IS NULL AND target IS NULL AND kind = ?
       ORDER BY priority DESC, n LIMIT ?`,
    ),
    boundJobs: store.prepare<[string, number], JobRow>(
      `SELECT * FROM jobs WHERE state = 'QUEUED' AND not_before_ms IS NULL AND target IS NOT NULL AND target = ?
       ORDER BY priority DESC, n LIMIT ?`,
    ),
    nextBound: store.prepare<[string], { target: string | null }>(
      `SELECT min(target) AS target FROM jobs WHERE target IS NOT NULL AND state = 'QUEUED' AND not_before_ms IS NULL AND target > ?`,
    ),
    held: store.prepare<[], JobRow>('SELECT * FROM jobs WHERE holder IS NOT NULL'),
    heldBy: store.prepare<[string], JobRow>('SELECT * FROM jobs WHERE holder = ? ORDER BY n'),
    // Of partial indexes alone: what is not finished has a deadline.
    counts: store.prepare<[], { open: number; held: number; dead: number }>(
      `SELECT (SELECT count(*) FROM jobs WHERE due_ms IS NOT NULL) AS open,
        (SELECT count(*) FROM jobs WHERE holder IS NOT NULL) AS held,
        (SELECT count(*) FROM (SELECT 1 FROM jobs
          WHERE finished_ms IS NOT NULL AND state IN ('FAILED', 'REJECTED', 'TIMED_OUT') LIMIT ${mostCounted})) AS dead`,
    ),
    behindWork: store.prepare<[number], JobRow>(
      `SELECT * FROM jobs AS waiting WHERE holder IS NOT NULL AND state = 'ACCEPTED' AND target IS NULL
       AND EXISTS (SELECT 1 FROM jobs WHERE holder = waiting.holder AND state = 'RUNNING')
       ORDER BY priority DESC, n LIMIT ?`,
    ),
    due: store.prepare<[number, number], JobRow>(
      'SELECT * FROM jobs WHERE due_ms IS NOT NULL AND due_ms <= ? ORDER BY due_ms LIMIT ?',
    ),
    nextDue: store.prepare<[], { due_ms: number }>('SELECT due_ms FROM jobs WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1'),
    loads: store.prepare<[], { holder: string; count: number }>(
      'SELECT holder, count(*) AS count FROM jobs WHERE holder IS NOT NULL GROUP BY holder',
    ),
    events: store.prepare<
      [number, number, number],
      { seq: number; at_ms: number; attempt: number; device: string | null; type: string; data: string }
    >('SELECT seq, at_ms, attempt, device, type, data FROM job_events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?'),
  }
}
