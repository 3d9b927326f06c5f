import { join } from 'node:path'
import { createJobStore, type JobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import type { DeviceReport } from '../../../cloud-bridge/queue/reports.ts'
import { newJob } from '../../../cloud-bridge/queue/submissions.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { openDatabase, type Store } from '../../../core/kit/store/open-database.ts'
import { JobSubmission } from '../../../core/wire/protocol/jobs.ts'

/** One round of enqueueing, in turn by the job store (`ours`) and by bare SQLite (`raw`), in ms. */
export interface StoreRound {
  readonly what: 'enqueue' | 'enqueueBatched'
  readonly jobs: number
  readonly oursMs: number
  readonly rawMs: number
}

/** One round of jobs from submission to result, in a database with few and in one with many finished jobs, in ms. */
export interface LifeRound {
  readonly what: 'life'
  readonly jobs: number
  readonly emptyMs: number
  readonly fullMs: number
}

export const batchSize = 50

/** The bytes of the job store's rows in a table without an index: the upper bound for a durable commit in SQLite. */
const rawTable = `CREATE TABLE raw (n INTEGER PRIMARY KEY, kind TEXT, target TEXT, priority INTEGER, key TEXT, input TEXT,
  terms TEXT, submitted_ms INTEGER, ends_by_ms INTEGER, due_ms REAL, retry_of TEXT) STRICT`

/** As long as a question with some context. */
const question = 'What is a good place to stay near the station, with breakfast and a room for two? '.repeat(5)

const submission = () => newJob(JobSubmission.parse({ kind: 'slm.generate', input: { prompt: question, maxTokens: 64 } }))

function timed(work: () => void): number {
  const startedMs = performance.now()
  work()
  return performance.now() - startedMs
}

/** No job of these measurements reaches them. */
const storageLimits = { attemptBytes: Number.POSITIVE_INFINITY, deviceBytesPerDay: Number.POSITIVE_INFINITY }

function openJobs(path: string): { store: Store; jobs: JobStore } {
  const store = openDatabase(path, jobTables)
  return { store, jobs: createJobStore(store, seededRandom(1), storageLimits) }
}

export interface StoreEffort {
  readonly rounds: number
  /** Per round. */
  readonly jobs: number
}

/**
 * Durable enqueue with one and with 50 jobs per commit, compared with bare transactions of the same bytes and pragmas.
 * @param dir folder of the databases, on a disk and not in memory
 */
export function benchEnqueue(dir: string, effort: StoreEffort, progress: (line: string) => void): StoreRound[] {
  const { store, jobs } = openJobs(join(dir, 'enqueue.sqlite'))
  const raw = openDatabase(join(dir, 'raw.sqlite'), [rawTable])
  try {
    const insert = raw.prepare(
      `INSERT INTO raw (kind, target, priority, key, input, terms, submitted_ms, ends_by_ms, due_ms, retry_of)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    const one = submission()
    const nowMs = Date.now()
    const endsByMs = nowMs + one.deadlineMs
    const row = [one.kind, null, one.priority, null, one.input, one.terms, nowMs, endsByMs, endsByMs, null]
    const write = raw.transaction((count: number) => {
      for (let i = 0; i < count; i++) insert.run(...row)
    })
    const measure = (what: StoreRound['what'], batch: number): StoreRound => {
      const several = Array.from({ length: batch }, () => one)
      const times = Math.ceil(effort.jobs / batch)
      const round = { what, jobs: times * batch, oursMs: 0, rawMs: 0 }
      // In turn: a slow moment of the disk then hits both.
      for (let i = 0; i < times; i++) {
        round.oursMs += timed(() => jobs.submit(several, Date.now()))
        round.rawMs += timed(() => write.immediate(batch))
      }
      return round
    }
    measure('enqueue', 1)
    measure('enqueueBatched', batchSize)
    return Array.from({ length: effort.rounds }, (_, round) => {
      progress(`enqueue, round ${round + 1} of ${effort.rounds}`)
      return [measure('enqueue', 1), measure('enqueueBatched', batchSize)]
    }).flat()
  } finally {
    store.close()
    raw.close()
  }
}

/**
 * Jobs from submission to result, 50 per commit, in a database of their own and in one that holds `finished` jobs.
 * @param dir folder of the databases
 */
export function benchFinished(
  dir: string,
  effort: StoreEffort & { readonly finished: number },
  progress: (line: string) => void,
): LifeRound[] {
  const empty = openJobs(join(dir, 'empty.sqlite'))
  const full = openJobs(join(dir, 'full.sqlite'))
  try {
    progress(`filling a database with ${effort.finished} finished jobs`)
    completeJobs(full.jobs, effort.finished, 500)
    completeJobs(empty.jobs, 500, batchSize)
    completeJobs(full.jobs, 500, batchSize)
    return Array.from({ length: effort.rounds }, (_, round) => {
      progress(`jobs from submission to result, round ${round + 1} of ${effort.rounds}`)
      const times = { emptyMs: 0, fullMs: 0 }
      // The second one finds the disk as the first has left it: they alternate.
      const order = round % 2 === 0 ? (['emptyMs', 'fullMs'] as const) : (['fullMs', 'emptyMs'] as const)
      for (const which of order)
        times[which] = timed(() => completeJobs(which === 'emptyMs' ? empty.jobs : full.jobs, effort.jobs, batchSize))
      return { what: 'life' as const, jobs: effort.jobs, ...times }
    })
  } finally {
    empty.store.close()
    full.store.close()
  }
}

/** Submits, claims, accepts, runs and finishes `count` jobs. */
function completeJobs(jobs: JobStore, count: number, batch: number): void {
  const one = submission()
  const device = 'device-1'
  for (let done = 0; done < count; done += batch) {
    const size = Math.min(batch, count - done)
    jobs.submit(
      Array.from({ length: size }, () => one),
      Date.now(),
    )
    const claimed = jobs.claim([{ device, kinds: [one.kind], freeSlots: size }], Date.now())
    if (claimed.length !== size) throw new Error(`${claimed.length} of ${size} jobs were claimed`)
    const report = (n: number, type: 'accepted' | 'running' | 'succeeded', data: DeviceReport['data'] = {}) =>
      jobs.storeReports(
        claimed.map(({ job, attempt }) => ({ job, device, attempt, n, report: { type }, data })),
        Date.now(),
      )
    report(1, 'accepted')
    report(2, 'running')
    const { succeeded } = report(3, 'succeeded', { text: question })
    if (succeeded.length !== size) throw new Error(`${succeeded.length} of ${size} jobs were finished`)
  }
}
