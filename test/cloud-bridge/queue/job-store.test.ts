import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { createJobStore, type JobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { isDead, isDone, jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import type { DeviceReport } from '../../../cloud-bridge/queue/reports.ts'
import { newJob } from '../../../cloud-bridge/queue/submissions.ts'
import { openDatabase, type Store } from '../../../core/kit/store/open-database.ts'
import type { RetentionLimits } from '../../../core/policy/jobs/retention.ts'
import { JobSubmission } from '../../../core/wire/protocol/jobs.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const dirs: (TempDir | { [Symbol.dispose](): void })[] = []
afterEach(() => {
  for (const dir of dirs.splice(0).reverse()) dir[Symbol.dispose]()
})

const storageLimits = { attemptBytes: 4 * 2 ** 20, deviceBytesPerDay: 2 ** 30 }

function open(path = join(newDir(), 'jobs.sqlite')): { jobs: JobStore; store: Store; path: string } {
  const store = openDatabase(path, jobTables)
  dirs.push({ [Symbol.dispose]: () => store.close() })
  return { jobs: createJobStore(store, { next: () => 0.5 }, storageLimits), store, path }
}

function newDir(): string {
  const dir = tempDir()
  dirs.push(dir)
  return dir.path
}

const submission = (fields: object = {}) =>
  newJob(JobSubmission.parse({ kind: 'slm.generate', input: { prompt: 'Is it far?' }, ...fields }))
const available = (device: string, freeSlots = 1, kinds: readonly string[] = ['slm.generate']) => ({ device, kinds, freeSlots })
const reported = (job: string, n: number, fields: Partial<DeviceReport> = {}): DeviceReport => ({
  job,
  device: 'a',
  attempt: 1,
  n,
  report: { type: 'progress' },
  data: {},
  ...fields,
})
const ids = (list: readonly { id?: string; job?: string }[]) => list.map(({ id, job }) => id ?? job)

describe('the job store', () => {
  it('dispatches the highest priority first, then the oldest job, each job once', () => {
    const { jobs } = open()
    const [low, high, later] = jobs.submit(
      [submission({ priority: 1 }), submission({ priority: 9 }), submission({ priority: 9 })],
      0,
    )
    expect(ids(jobs.claim([available('a', 2)], 1))).toEqual([high?.id, later?.id])
    expect(ids(jobs.claim([available('b', 5)], 1))).toEqual([low?.id])
    expect(jobs.claim([available('c', 5)], 1)).toEqual([])
    expect(jobs.loads.all()).toEqual(
      new Map([
        ['a', 2],
        ['b', 1],
      ]),
    )
  })

  it('dispatches a job only to a device that supports its kind, and a bound job only to its device', () => {
    const { jobs } = open()
    const [bound] = jobs.submit([submission({ device: 'b' })], 0)
    jobs.submit([submission({ kind: 'hat.generate' })], 0)
    expect(jobs.claim([available('a', 5)], 1)).toEqual([])
    expect(jobs.claim([available('b', 5)], 1)).toMatchObject([{ job: bound?.id, device: 'b', attempt: 1 }])
  })

  it('counts the jobs that change a device apart from its work', () => {
    const { jobs } = open()
    const input = { modelId: '0'.repeat(64), manifestSha256: '0'.repeat(64) }
    const [install] = jobs.submit(
      Array.from({ length: 2 }, () => submission({ kind: 'bundle.install', input, device: 'a', priority: 9 })),
      0,
    )
    const [work] = jobs.submit([submission({ device: 'a' })], 0)
    expect(ids(jobs.claim([available('a')], 1))).toEqual([work?.id])
    expect(ids(jobs.claim([available('a')], 1, 'maintenance'))).toEqual([install?.id])
    expect([jobs.loads.of('work'), jobs.loads.of('maintenance'), jobs.loads.all()]).toEqual(
      [1, 1, 2].map((n) => new Map([['a', n]])),
    )
    // A download that goes on does not count as an attempt, however long its device is away.
    for (const kind of ['accepted', 'running'] as const)
      jobs.storeReports([reported(install!.id, kind === 'accepted' ? 1 : 2, { report: { type: kind } })], 2)
    jobs.setPresence('a', false, 3)
    jobs.applyDeadlines(80_000_000)
    expect(jobs.find(install!.id)).toMatchObject({ state: 'RUNNING', attempt: 1 })
    expect(ids(jobs.claim([available('a', 0)], 4, 'maintenance'))).toEqual([])
  })

  it('spreads jobs evenly over devices', () => {
    const { jobs } = open()
    jobs.submit(
      Array.from({ length: 6 }, () => submission()),
      0,
    )
    const given = jobs.claim([available('a', 4), available('b', 4), available('c', 4)], 1).map(({ device }) => device)
    expect(given.sort()).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
  })

  it('moves a job that waits behind a running one to an idle device, unless it has started or is bound', () => {
    const { jobs } = open()
    const [first, second] = jobs.submit([submission(), submission(), submission({ device: 'b' })], 0)
    jobs.claim([available('a', 2)], 1)
    const started = (id: string, type: 'accepted' | 'running', n: number, device = 'a') =>
      reported(id, n, { device, report: { type } })
    jobs.storeReports([started(first!.id, 'accepted', 1), started(second!.id, 'accepted', 1)], 2)
    const idle = [available('c', 2, ['hat.generate']), available('d', 2)]
    expect(jobs.rebalance(idle, 3)).toEqual({ dispatched: [], effects: [] })
    jobs.storeReports([started(first!.id, 'running', 2)], 3)
    expect(jobs.rebalance(idle, 4)).toMatchObject({
      dispatched: [{ job: second!.id, device: 'd', attempt: 2 }],
      effects: [{ kind: 'cancelAttempt', job: second!.id, device: 'a', attempt: 1 }],
    })
    expect(jobs.find(first!.id)).toMatchObject({ state: 'RUNNING', device: 'a' })
    expect(jobs.events(second!.id, 0, 10).map(({ type, device }) => [type, device])).toEqual([
      ['sent', 'a'],
      ['accepted', 'a'],
      ['queued', 'a'],
      ['sent', 'd'],
    ])
    jobs.claim([available('b', 2)], 5)
    const bound = jobs.list({ limit: 1 })[0]!.id
    const [more] = jobs.submit([submission()], 6)
    jobs.claim([available('b', 1)], 6)
    jobs.storeReports(
      [started(bound, 'accepted', 1, 'b'), started(more!.id, 'accepted', 1, 'b'), started(more!.id, 'running', 2, 'b')],
      7,
    )
    expect(jobs.rebalance([available('e', 2)], 8).dispatched).toEqual([])
  })

  it('returns the same job for a repeated idempotency key, after a restart too', () => {
    const first = open()
    const [job] = first.jobs.submit([submission({ key: 'order-7' })], 0)
    expect(job?.isNew).toBe(true)
    const again = open(first.path)
    expect(again.jobs.submit([submission({ key: 'order-7' }), submission({ key: 'order-7' })], 9)).toEqual([
      { id: job?.id, isNew: false },
      { id: job?.id, isNew: false },
    ])
    expect(again.jobs.list({ limit: 10 })).toHaveLength(1)
  })

  it('returns the jobs of a large batch in order, with and without keys', () => {
    const { jobs } = open()
    const batch = Array.from({ length: 37 }, (_, i) => submission({ priority: i % 10, ...(i === 17 ? { key: 'k' } : {}) }))
    const submitted = jobs.submit(batch, 0)
    expect(submitted.map(({ id }) => jobs.find(id)?.priority)).toEqual(batch.map(({ priority }) => priority))
    expect(jobs.find(submitted[17]!.id)?.key).toBe('k')
    expect(new Set(ids(submitted)).size).toBe(37)
  })

  it('stores the pieces of an answer in order, each once, and reports gaps', () => {
    const { jobs } = open()
    const [job] = jobs.submit([submission()], 0)
    const id = job!.id
    jobs.claim([available('a')], 1)
    const piece = (n: number, text: string) => reported(id, n, { data: { text } })
    jobs.storeReports([reported(id, 1, { report: { type: 'accepted' } }), reported(id, 2, { report: { type: 'running' } })], 2)
    const early = piece(5, 'c')
    const { gaps } = jobs.storeReports([piece(3, 'a'), piece(3, 'a'), early], 3)
    expect([...gaps]).toEqual([early])
    jobs.storeReports([piece(3, 'a'), piece(4, 'b'), piece(5, 'c')], 4)
    expect(jobs.events(id, 0, 100).map(({ type, data }) => [type, (data as { text?: string }).text])).toEqual([
      ['sent', undefined],
      ['accepted', undefined],
      ['running', undefined],
      ['text', 'a'],
      ['text', 'b'],
      ['text', 'c'],
    ])
    expect(jobs.events(id, 4, 100).map(({ seq }) => seq)).toEqual([5, 6])
  })

  it('stores the first result even if pieces before it are missing, and no later result', () => {
    const { jobs } = open()
    const [job] = jobs.submit([submission()], 0)
    jobs.claim([available('a')], 1)
    const done = (text: string, n: number) => reported(job!.id, n, { report: { type: 'succeeded' }, data: { text } })
    expect(jobs.storeReports([done('yes', 7), done('no', 8)], 2).gaps.size).toBe(0)
    expect(jobs.find(job!.id)).toMatchObject({ state: 'SUCCEEDED', result: { text: 'yes' }, device: null, devices: ['a'] })
    expect(jobs.events(job!.id, 0, 10).map(({ type }) => type)).toEqual(['sent', 'succeeded'])
  })

  it('fails an attempt whose result is invalid for the job', () => {
    const { jobs } = open()
    const [job] = jobs.submit([submission({ attempts: 1 })], 0)
    jobs.claim([available('a')], 1)
    jobs.storeReports([reported(job!.id, 1, { report: { type: 'succeeded' }, data: { answer: 'yes' } })], 2)
    const message = expect.stringContaining("the device's result is invalid for slm.generate: text")
    expect(jobs.find(job!.id)).toMatchObject({ state: 'FAILED', result: null, error: { code: 'JOB_FAILED', message } })
  })

  it('dispatches a job to another device when the first has been absent for too long', () => {
    const { jobs } = open()
    const [job] = jobs.submit([submission()], 0)
    jobs.claim([available('a')], 0)
    expect(jobs.setPresence('a', false, 100)).toEqual([])
    expect(jobs.nextDeadlineMs()).toBe(30_100)
    jobs.applyDeadlines(30_100)
    expect(jobs.claim([available('b')], 30_100)).toEqual([])
    jobs.applyDeadlines(jobs.nextDeadlineMs()!)
    expect(jobs.claim([available('b')], 30_300)).toMatchObject([{ job: job?.id, device: 'b', attempt: 2 }])
  })

  it('waits for the first device if the job allows no replacement', () => {
    const { jobs } = open()
    jobs.submit([submission({ disconnect: { replace: false, lostAfterS: 1 } })], 0)
    jobs.claim([available('a')], 0)
    jobs.setPresence('a', false, 0)
    jobs.applyDeadlines(1_000)
    jobs.applyDeadlines(jobs.nextDeadlineMs()!)
    expect(jobs.claim([available('b')], 2_000)).toEqual([])
    expect(jobs.claim([available('a')], 2_000)).toMatchObject([{ device: 'a', attempt: 2 }])
  })

  it('cancels a job once, and cancels the attempt of its device', () => {
    const { jobs } = open()
    const [job] = jobs.submit([submission()], 0)
    jobs.claim([available('a')], 1)
    const cancelAttempt = { kind: 'cancelAttempt', job: job!.id, device: 'a', attempt: 1 }
    expect(jobs.cancel(job!.id, 2)).toEqual({ canceled: true, effects: [cancelAttempt] })
    expect(jobs.cancel(job!.id, 3)).toEqual({ canceled: false, effects: [] })
    expect(jobs.cancel('00000000-1', 3)).toBeUndefined()
  })

  it('retries an ended job as a new job', () => {
    const { jobs } = open()
    const [job] = jobs.submit([submission({ key: 'k', deadlineS: 60 })], 5_000)
    expect(jobs.retry(job!.id, 5_001)).toBeUndefined()
    jobs.cancel(job!.id, 5_002)
    const again = jobs.retry(job!.id, 7_000)
    expect(jobs.find(again!.id)?.deadlineAt).toBe(new Date(67_000).toISOString())
    expect(jobs.find(again!.id)).toMatchObject({ state: 'QUEUED', retryOf: job!.id, key: null, input: { prompt: 'Is it far?' } })
    expect(jobs.find(job!.id)?.state).toBe('CANCELED')
  })

  it('applies the time limits of the submission, each to its own state', () => {
    const { jobs } = open()
    const timeouts = { acceptS: 11, startS: 12, stepS: 13, runS: 14.5 }
    const disconnect = { lostAfterS: 3 }
    const [job] = jobs.submit([submission({ deadlineS: 100, timeouts, disconnect, attempts: 1 })], 0)
    const event = (n: number, type: 'accepted' | 'running') => reported(job!.id, n, { report: { type } })
    const deadlines = [jobs.nextDeadlineMs()]
    jobs.claim([available('a')], 0)
    deadlines.push(jobs.nextDeadlineMs())
    jobs.storeReports([event(1, 'accepted')], 0)
    deadlines.push(jobs.nextDeadlineMs())
    jobs.storeReports([event(2, 'running')], 0)
    deadlines.push(jobs.nextDeadlineMs())
    jobs.storeReports([event(3, 'running')], 10_000)
    deadlines.push(jobs.nextDeadlineMs())
    jobs.setPresence('a', false, 11_000)
    deadlines.push(jobs.nextDeadlineMs())
    expect(deadlines).toEqual([100_000, 11_000, 12_000, 13_000, 14_500, 14_000])
    const finishedAt = new Date(14_000).toISOString()
    jobs.applyDeadlines(14_000)
    expect(jobs.find(job!.id)).toMatchObject({ state: 'FAILED', submittedAt: new Date(0).toISOString(), finishedAt })
  })

  it('lists dead letters with their errors', () => {
    const { jobs } = open()
    const [dead] = jobs.submit([submission(), submission()], 0)
    jobs.claim([available('a')], 1)
    const error = { code: 'REQUEST_INVALID', message: 'this device does not support slm.generate' }
    jobs.storeReports([reported(dead!.id, 1, { report: { type: 'failed', failure: 'refused', error } })], 2)
    expect(jobs.list({ dead: true, limit: 10 })).toMatchObject([{ id: dead!.id, state: 'REJECTED', error }])
    expect(jobs.events(dead!.id, 0, 10).at(-1)).toMatchObject({ type: 'rejected', device: 'a', attempt: 1, data: { error } })
  })

  it('counts queued jobs, dispatched jobs and dead letters, and lists the jobs of a device', () => {
    const { jobs } = open()
    const submitted = jobs.submit(
      Array.from({ length: 6 }, () => submission()),
      0,
    )
    const given = ids(jobs.claim([available('a', 3)], 1))
    expect(jobs.counts()).toEqual({ queued: 3, underWay: 3, dead: 0 })
    expect(ids(jobs.heldBy('a'))).toEqual(given)
    expect(jobs.heldBy('b')).toEqual([])
    const [done, refused] = given
    const error = { code: 'REQUEST_INVALID', message: 'no' }
    jobs.storeReports([reported(done!, 1, { report: { type: 'succeeded' }, data: { text: 'no' } })], 2)
    jobs.storeReports([reported(refused!, 1, { report: { type: 'failed', failure: 'refused', error } })], 2)
    jobs.cancel(submitted[5]!.id, 2)
    expect(jobs.counts()).toEqual({ queued: 2, underWay: 1, dead: 1 })
  })

  it('finds queued, expired and held jobs by index', () => {
    const { store } = open()
    const plan = (sql: string) =>
      store
        .prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map(({ detail }) => detail)
        .join('; ')
    const queued = "SELECT * FROM jobs WHERE state = 'QUEUED' AND not_before_ms IS NULL AND"
    expect(plan(`${queued} target IS NULL AND kind = 'x' AND ends_by_ms > 5 ORDER BY priority DESC, n LIMIT 1`)).toMatch(
      /^SEARCH jobs USING INDEX jobs_open \(kind=\?\)$/,
    )
    expect(plan(`${queued} target IS NOT NULL AND target = 'x' AND ends_by_ms > 5 ORDER BY priority DESC, n LIMIT 1`)).toMatch(
      /^SEARCH jobs USING INDEX jobs_bound \(target=\?\)$/,
    )
    expect(
      plan(
        `SELECT min(target) FROM jobs WHERE target IS NOT NULL AND state = 'QUEUED' AND not_before_ms IS NULL AND target > 'x'`,
      ),
    ).toContain('SEARCH jobs USING INDEX jobs_bound (target>?)')
    expect(plan('SELECT * FROM jobs WHERE due_ms IS NOT NULL AND due_ms <= 5 ORDER BY due_ms LIMIT 1')).toContain('jobs_due')
    expect(plan("SELECT * FROM jobs WHERE holder = 'a'")).toContain('jobs_held')
    expect(plan('SELECT * FROM jobs WHERE holder IS NOT NULL')).toContain('jobs_held')
    expect(plan('SELECT holder, count(*) FROM jobs WHERE holder IS NOT NULL GROUP BY holder')).toContain('jobs_held')
  })
})

describe('finished jobs', () => {
  const day = 86_400_000
  const retention = { doneMs: 7 * day, deadMs: 30 * day, maxJobs: 1_000, maxBytes: Number.MAX_SAFE_INTEGER }

  /** A store with `count` jobs that ended a second apart, every `deadOf`-th of them a dead letter, and one queued job. */
  function storeOfEndedJobs(count: number, deadOf = Number.POSITIVE_INFINITY) {
    const { jobs, store, path } = open()
    // These tests need no durability, and make hundreds of commits.
    store.pragma('synchronous = OFF')
    const submitted = jobs.submit(
      Array.from({ length: count }, (_, i) => submission({ key: `key-${i}` })),
      0,
    )
    for (const [i, { id }] of submitted.entries()) {
      const nowMs = i * 1_000
      jobs.claim([available('a')], nowMs)
      const error = { code: 'REQUEST_INVALID', message: 'no' }
      const report =
        (i + 1) % deadOf === 0 ? ({ type: 'failed', failure: 'refused', error } as const) : ({ type: 'succeeded' } as const)
      jobs.storeReports([reported(id, 1, { report, data: { text: 'yes '.repeat(100) } })], nowMs)
    }
    const [waiting] = jobs.submit([submission()], 0)
    return { jobs, store, path, ended: submitted.map(({ id }) => id), waiting: waiting!.id }
  }
  function pruneAll(jobs: JobStore, limits: RetentionLimits, nowMs: number): number {
    const surplus = jobs.surplus(limits, nowMs)
    let removed = 0
    for (let some = jobs.prune(surplus); some > 0; some = jobs.prune(surplus)) {
      expect(some).toBeLessThanOrEqual(50)
      removed += some
    }
    return removed
  }

  it('are deleted after their retention with history and key, dead letters later, queued jobs never', () => {
    const { jobs, store, ended, waiting } = storeOfEndedJobs(80, 4)
    expect(pruneAll(jobs, retention, 7 * day - 1)).toBe(0)
    expect(pruneAll(jobs, retention, 7 * day + 39_000)).toBe(30)
    expect(jobs.find(ended[1]!)).toBeUndefined()
    expect(jobs.events(ended[1]!, 0, 10)).toEqual([])
    expect(jobs.find(ended[3]!)?.state).toBe('REJECTED')
    expect(jobs.find(ended[41]!)?.state).toBe('SUCCEEDED')
    expect(pruneAll(jobs, retention, 60 * day)).toBe(50)
    expect(jobs.list({ limit: 10 }).map(({ id }) => id)).toEqual([waiting])
    expect(store.prepare('SELECT count(*) AS count FROM job_events').get()).toEqual({ count: 0 })
    expect(jobs.submit([submission({ key: 'key-1' })], 60 * day)).toMatchObject([{ isNew: true }])
  })

  it('are deleted above the maximum number and size, the oldest first', () => {
    const { jobs, store, ended } = storeOfEndedJobs(100)
    expect(pruneAll(jobs, { ...retention, maxJobs: 40 }, day)).toBe(60)
    expect(jobs.find(ended[59]!)).toBeUndefined()
    expect(jobs.find(ended[60]!)).toBeDefined()
    const used = () => {
      const pragma = (name: string) => Number(store.pragma(name, { simple: true }))
      return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
    }
    const before = used()
    const removed = pruneAll(jobs, { ...retention, maxBytes: before / 2 }, day)
    expect(removed).toBeGreaterThan(0)
    expect(removed).toBeLessThan(40)
    expect(used()).toBeLessThan(before)
    expect(pruneAll(jobs, { ...retention, maxBytes: used() }, day)).toBe(0)
    expect(jobs.find(ended.at(-1)!)).toBeDefined()
  })

  it('leave no number that a new job could get', () => {
    const { jobs, path, ended, waiting } = storeOfEndedJobs(3)
    jobs.cancel(waiting, 4_000)
    expect(pruneAll(jobs, retention, 60 * day)).toBe(3)
    const again = open(path)
    const [next] = again.jobs.submit([submission()], 60 * day)
    expect([...ended, waiting]).not.toContain(next!.id)
  })

  it('that a device starts again after a late message are canceled there', () => {
    const { jobs, ended } = storeOfEndedJobs(3)
    pruneAll(jobs, retention, 60 * day)
    const late = reported(ended[0]!, 1, { report: { type: 'accepted' } })
    const { effects, gaps } = jobs.storeReports([late], 60 * day)
    expect(effects).toEqual([{ kind: 'cancelAttempt', job: ended[0], device: 'a', attempt: 1 }])
    expect(gaps.size).toBe(0)
    expect(jobs.storeReports([reported(ended[0]!, 2, { report: { type: 'canceled' } })], 60 * day).effects).toEqual([])
  })

  it('are found by index', () => {
    const { store } = open()
    const plan = (which: string) =>
      store
        .prepare<[], { detail: string }>(
          `EXPLAIN QUERY PLAN SELECT n FROM jobs WHERE ${which} AND finished_ms <= 5 AND n < 9 ORDER BY finished_ms LIMIT 5`,
        )
        .all()
        .map(({ detail }) => detail)
        .join('; ')
    expect(plan(isDone)).toMatch(/^SEARCH jobs USING (COVERING )?INDEX jobs_done_age \(finished_ms>\? AND finished_ms<\?\)$/)
    expect(plan(isDead)).toMatch(/^SEARCH jobs USING (COVERING )?INDEX jobs_dead_age \(finished_ms>\? AND finished_ms<\?\)$/)
  })
})

describe('a submission', () => {
  it.each([
    ['an unknown kind', { kind: 'make.coffee', input: {} }],
    ['neither messages nor prompt', { kind: 'slm.generate', input: {} }],
    ['both', { kind: 'slm.generate', input: { prompt: 'a', messages: [{ role: 'user', content: 'b' }] } }],
    ['an unknown field of the input', { kind: 'slm.generate', input: { prompt: 'a', prompts: 'b' } }],
    ['an unknown field', { kind: 'slm.generate', input: { prompt: 'a' }, piority: 3 }],
    ['a kind that needs a device without one', { kind: 'profile', input: {} }],
  ])('is refused with %s', (_what, body) => {
    expect(JobSubmission.safeParse(body).success).toBe(false)
  })
})
