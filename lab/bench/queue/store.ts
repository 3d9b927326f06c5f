import { join } from 'node:path'
import { createJobStore, type JobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import type { DeviceReport } from '../../../cloud-bridge/queue/reports.ts'
import { newJob } from '../../../cloud-bridge/queue/submissions.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { median } from '../../../core/base/statistics.ts'
import { JobSubmission } from '../../../core/protocol/jobs.ts'
import { openDatabase, type Store } from '../../../core/store/open-database.ts'

/** One round of the store alone: `ours` and `raw` one after the other, in ms. */
export interface StoreRound {
  readonly what: 'enqueue' | 'enqueueBatched'
  readonly jobs: number
  readonly oursMs: number
  readonly rawMs: number
}

/** One round of whole lives of jobs, beside none and beside many finished ones, in ms. */
export interface LifeRound {
  readonly what: 'life'
  readonly jobs: number
  readonly emptyMs: number
  readonly fullMs: number
}

export const batchSize = 50

/** The bytes of our rows in a table without an index: as fast as SQLite gets with a commit on disk. */
const rawTable = `CREATE TABLE raw (n INTEGER PRIMARY KEY, kind TEXT, target TEXT, priority INTEGER, key TEXT, input TEXT,
  terms TEXT, submitted_ms INTEGER, ends_by_ms INTEGER, due_ms REAL, retry_of TEXT) STRICT`

/** About as long as a question with some context. */
const question = 'What is a good place to stay near the station, with breakfast and a room for two? '.repeat(5)

const submission = () => newJob(JobSubmission.parse({ kind: 'slm.generate', input: { prompt: question, maxTokens: 64 } }))

function timed(work: () => void): number {
  const startedMs = performance.now()
  work()
  return performance.now() - startedMs
}

function openJobs(path: string): { store: Store; jobs: JobStore } {
  const store = openDatabase(path, jobTables)
  return { store, jobs: createJobStore(store, seededRandom(1)) }
}

/**
 * Durable enqueue, one job a commit and 50, beside bare transactions of the same bytes with the same pragmas.
 * @param dir where the databases go: a disk, not memory
 */
export function benchEnqueue(dir: string, rounds: number, jobsPerRound: number, progress: (line: string) => void): StoreRound[] {
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
      const times = Math.ceil(jobsPerRound / batch)
      const round = { what, jobs: times * batch, oursMs: 0, rawMs: 0 }
      // In turn, so that both meet the same disk.
      for (let i = 0; i < times; i++) {
        round.oursMs += timed(() => jobs.submit(several, Date.now()))
        round.rawMs += timed(() => write.immediate(batch))
      }
      return round
    }
    measure('enqueue', 1)
    measure('enqueueBatched', batchSize)
    return Array.from({ length: rounds }, (_, round) => {
      progress(`enqueue, round ${round + 1} of ${rounds}`)
      return [measure('enqueue', 1), measure('enqueueBatched', batchSize)]
    }).flat()
  } finally {
    store.close()
    raw.close()
  }
}

/**
 * Jobs from submission to result, 50 a commit, in a database of their own and in one that holds `finished` ended ones.
 * @param dir where the databases go
 */
export function benchFinished(
  dir: string,
  limits: { readonly rounds: number; readonly jobs: number; readonly finished: number },
  progress: (line: string) => void,
): LifeRound[] {
  const empty = openJobs(join(dir, 'empty.sqlite'))
  const full = openJobs(join(dir, 'full.sqlite'))
  try {
    progress(`filling a database with ${limits.finished} finished jobs`)
    live(full.jobs, limits.finished, 500)
    live(empty.jobs, 500, batchSize)
    live(full.jobs, 500, batchSize)
    return Array.from({ length: limits.rounds }, (_, round) => {
      progress(`lives of jobs, round ${round + 1} of ${limits.rounds}`)
      const times = { emptyMs: 0, fullMs: 0 }
      // Whoever goes second finds the disk as the first has left it: they take turns.
      const order = round % 2 === 0 ? (['emptyMs', 'fullMs'] as const) : (['fullMs', 'emptyMs'] as const)
      for (const which of order)
        times[which] = timed(() => live(which === 'emptyMs' ? empty.jobs : full.jobs, limits.jobs, batchSize))
      return { what: 'life' as const, jobs: limits.jobs, ...times }
    })
  } finally {
    empty.store.close()
    full.store.close()
  }
}

/** Submitted, given away, accepted, begun and done. */
function live(jobs: JobStore, count: number, batch: number): void {
  const one = submission()
  const device = 'device-1'
  for (let done = 0; done < count; done += batch) {
    const size = Math.min(batch, count - done)
    jobs.submit(
      Array.from({ length: size }, () => one),
      Date.now(),
    )
    const given = jobs.claim([{ device, kinds: [one.kind], freeSlots: size }], Date.now())
    if (given.length !== size) throw new Error(`${given.length} of ${size} jobs were given away`)
    const say = (n: number, type: 'accepted' | 'running' | 'succeeded', data: DeviceReport['data'] = {}) =>
      jobs.storeReports(
        given.map(({ job, attempt }) => ({ job, device, attempt, n, report: { type }, data })),
        Date.now(),
      )
    say(1, 'accepted')
    say(2, 'running')
    const { changed } = say(3, 'succeeded', { text: question })
    if (changed.size !== size) throw new Error(`${changed.size} of ${size} jobs were done`)
  }
}

/** The figures of `brim bench queue` that need no process. */
export function summariseStore(rounds: readonly StoreRound[], lives: readonly LifeRound[]) {
  const of = (what: StoreRound['what']) => rounds.filter((round) => round.what === what)
  const ratio = (what: StoreRound['what']) => median(of(what).map(({ oursMs, rawMs }) => rawMs / oursMs))
  const perS = (what: StoreRound['what']) => median(of(what).map(({ jobs, oursMs }) => (1_000 * jobs) / oursMs))
  const rawPerS = (what: StoreRound['what']) => median(of(what).map(({ jobs, rawMs }) => (1_000 * jobs) / rawMs))
  return {
    enqueueOverRaw: ratio('enqueue'),
    enqueueBatchedOverRaw: ratio('enqueueBatched'),
    enqueuePerS: perS('enqueue'),
    rawPerS: rawPerS('enqueue'),
    enqueueBatchedPerS: perS('enqueueBatched'),
    rawBatchedPerS: rawPerS('enqueueBatched'),
    livesPerS: median(lives.map(({ jobs, emptyMs }) => (1_000 * jobs) / emptyMs)),
    slowdownAt100k: median(lives.map(({ emptyMs, fullMs }) => fullMs / emptyMs)),
  }
}
