import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PresenceFeed } from '../../cloud-bridge/presence/presence-feed.ts'
import { createJobQueue, type JobQueue } from '../../cloud-bridge/queue/job-queue.ts'
import { createJobStore, type JobStore } from '../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../cloud-bridge/queue/job-tables.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { JobSubmission } from '../../core/wire/protocol/jobs.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { fresh } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dayMs = 86_400_000
const kb = 1_024
const limits = { attemptBytes: 64 * kb, deviceBytesPerDay: 256 * kb }

const dir = fresh(tempDir)
const clock = fresh(fakeClock)
/** What the wall clock is ahead of the monotonic one. */
let aheadMs: number
let bridge: { store: Store; jobs: JobStore; presence: PresenceFeed; queue: JobQueue; lines: { msg: string }[] }
let sent: { device: string; type: string; job: string; attempt: number }[]
beforeEach(() => {
  aheadMs = 0
  sent = []
  bridge = start()
})
afterEach(() => stop())

function start(maxBytes = Number.MAX_SAFE_INTEGER, storage = limits): typeof bridge {
  const store = openDatabase(join(dir.path, 'jobs.sqlite'), jobTables)
  store.pragma('synchronous = OFF')
  const jobs = createJobStore(store, { next: () => 0 }, storage)
  const { logger, lines } = recordingLogger('warn')
  const presence = new PresenceFeed(logger)
  const queue = createJobQueue({
    jobs,
    presence,
    retention: { doneMs: 30 * dayMs, deadMs: 30 * dayMs, maxJobs: 10_000, maxBytes },
    bridge: 'bridge-1',
    clock,
    wallMs: () => clock.nowMs() + aheadMs,
    publish(device, leaf, message) {
      if (leaf === 'jobs') sent.push({ device, ...(JSON.parse(message) as { type: string; job: string; attempt: number }) })
    },
    onUnreadable: (device, leaf, reason) => expect.fail(`${leaf} of ${device}: ${reason}`),
    logger,
  })
  queue.start()
  return { store, jobs, presence, queue, lines: lines as { msg: string }[] }
}
async function stop(): Promise<void> {
  await bridge.queue.close()
  bridge.store.close()
}

function connect(device: string): void {
  bridge.presence.publish({
    kind: 'state',
    device,
    state: { v: 1, state: 'ready', birth: 1, at: new Date(0).toISOString(), jobs: ['slm.generate'] },
  })
}
const submit = (fields: object = {}) => {
  const submission = JobSubmission.parse({
    kind: 'slm.generate',
    input: { prompt: 'Is it far?' },
    deadlineS: 6 * 86_400,
    ...fields,
  })
  return bridge.queue.submit([submission])[0]!.id
}
const event = (device: string, job: string, attempt: number, n: number, fields: object) =>
  bridge.queue.onJobEvent(
    device,
    Buffer.from(JSON.stringify({ v: 1, bridge: 'bridge-1', job, attempt, n, at: new Date(0).toISOString(), ...fields })),
  )
const piece = (from: number, bytes: number) => ({ type: 'text', text: 'x'.repeat(bytes), from })
const attemptsOf = (job: string) => sent.filter((one) => one.type === 'run' && one.job === job)
const isSent = (job: string, attempt = 1) => expect.poll(() => attemptsOf(job).at(-1)?.attempt).toBe(attempt)
const stateOf = (job: string) => bridge.jobs.find(job)?.state
const textBytes = (job: string) =>
  bridge.jobs.events(job, 0, 100_000).reduce((sum, { data }) => sum + String((data as { text?: string }).text ?? '').length, 0)
/** The device takes the job and answers with this many bytes. */
async function answer(device: string, job: string, bytes: number): Promise<void> {
  await isSent(job)
  event(device, job, 1, 1, { type: 'succeeded', result: { text: 'x'.repeat(bytes) } })
  await expect.poll(() => stateOf(job)).toBe('SUCCEEDED')
}

describe('what a device may store with one attempt', () => {
  it('is not widened by an event with a high number', async () => {
    connect('evil')
    const job = submit()
    await isSent(job)
    event('evil', job, 1, 1, { type: 'running' })
    event('evil', job, 1, 2 ** 31 - 1, piece(0, 1))
    for (let n = 2; n <= 40; n++) event('evil', job, 1, n, piece(n, 16 * kb))
    await expect.poll(() => stateOf(job)).toBe('REJECTED')
    expect(bridge.jobs.find(job)?.error).toMatchObject({ code: 'REQUEST_INVALID' })
    expect(textBytes(job)).toBeLessThan(limits.attemptBytes)
  })

  it('counts on after a restart of the bridge', async () => {
    connect('evil')
    const job = submit()
    await isSent(job)
    for (let n = 1; n <= 3; n++) event('evil', job, 1, n, piece(n, 16 * kb))
    await expect.poll(() => textBytes(job)).toBe(48 * kb)
    await stop()
    bridge = start()
    connect('evil')
    for (let n = 4; n <= 6; n++) event('evil', job, 1, n, piece(n, 16 * kb))
    await expect.poll(() => stateOf(job)).toBe('REJECTED')
    expect(textBytes(job)).toBe(48 * kb)
  })

  it('includes the rows of small pieces and of lines without text', async () => {
    connect('evil')
    const job = submit()
    await isSent(job)
    const rows = () => bridge.store.prepare<[], number>('SELECT count(*) FROM job_events').pluck().get()!
    for (let n = 1; n <= 3_000; n++) event('evil', job, 1, n, { type: 'progress', doneBytes: n, totalBytes: 9_000 })
    const heardN = bridge.store.prepare<[], number>('SELECT heard_n FROM jobs').pluck()
    await expect.poll(() => heardN.get()).toBe(3_000)
    for (let again = 0; again < 1_000; again++) {
      bridge.jobs.setPresence('evil', false, clock.nowMs())
      bridge.jobs.setPresence('evil', true, clock.nowMs())
    }
    expect(stateOf(job)).toBe('RUNNING')
    expect(rows()).toBeLessThan(1_000)
    event('evil', job, 1, 3_001, piece(0, 1))
    await expect.poll(() => stateOf(job)).toBe('REJECTED')
  })

  it('is not widened by numbers that are longer when they are written again', async () => {
    connect('evil')
    const job = submit({ attempts: 1 })
    await isSent(job)
    const numbers = Array.from({ length: 16_000 }, () => '1E20').join(',')
    const fields = `"v":1,"bridge":"bridge-1","job":"${job}","attempt":1,"n":1,"at":"${new Date(0).toISOString()}"`
    bridge.queue.onJobEvent('evil', Buffer.from(`{${fields},"type":"succeeded","result":{"text":"","numbers":[${numbers}]}}`))
    await expect.poll(() => stateOf(job)).toBe('FAILED')
    expect(bridge.jobs.find(job)).toMatchObject({ result: null, error: { code: 'JOB_FAILED' } })
  })
})

describe('what a device may store in a day', () => {
  /** Answers until the device has stored its bytes of a day. */
  async function exhaust(device: string): Promise<void> {
    for (let stored = 0; stored < limits.deviceBytesPerDay; stored += 128 * kb) await answer(device, submit(), 128 * kb)
  }

  it('is limited: the device gets no further jobs until the next day, and others get them', async () => {
    connect('evil')
    await exhaust('evil')
    expect(bridge.lines.map(({ msg }) => msg)).toContainEqual(expect.stringContaining('gets no jobs until tomorrow'))
    const [bound, open] = [submit({ device: 'evil' }), submit()]
    connect('honest')
    await isSent(open)
    expect(attemptsOf(open)).toMatchObject([{ device: 'honest' }])
    expect(stateOf(bound)).toBe('QUEUED')
    aheadMs = dayMs
    await clock.advance(1_000)
    await isSent(bound)
  })

  it('is limited after a restart too', async () => {
    connect('evil')
    await exhaust('evil')
    await stop()
    bridge = start()
    connect('evil')
    const job = submit()
    connect('honest')
    await isSent(job)
    expect(attemptsOf(job)).toMatchObject([{ device: 'honest' }])
  })

  it('ends the attempt that exceeds it, and another device continues', async () => {
    connect('evil')
    await answer('evil', submit(), 128 * kb)
    await answer('evil', submit(), 100 * kb)
    const job = submit()
    await isSent(job)
    for (let n = 1; n <= 3; n++) event('evil', job, 1, n, piece(n, 16 * kb))
    await expect.poll(() => stateOf(job)).toBe('QUEUED')
    expect(bridge.jobs.find(job)?.error).toMatchObject({ code: 'QUOTA_EXCEEDED', message: expect.stringContaining('evil') })
  })
})

describe('when the database is too large', () => {
  const usedBytes = () => {
    const pragma = (name: string) => Number(bridge.store.pragma(name, { simple: true }))
    return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
  }

  it('the device that stores most loses its oldest results, and no other device loses one', async () => {
    await stop()
    bridge = start(Number.MAX_SAFE_INTEGER, { ...limits, deviceBytesPerDay: 2 ** 30 })
    connect('honest')
    const honest: string[] = []
    for (let i = 0; i < 5; i++) {
      honest.push(submit())
      await answer('honest', honest.at(-1)!, 4 * kb)
    }
    bridge.presence.publish({
      kind: 'state',
      device: 'honest',
      state: { v: 1, state: 'lost', birth: 1, at: new Date(0).toISOString() },
    })
    connect('evil')
    const evil: string[] = []
    for (let i = 0; i < 20; i++) {
      evil.push(submit())
      await answer('evil', evil.at(-1)!, 128 * kb)
    }
    const maxBytes = Math.round(usedBytes() / 2)
    await stop()
    bridge = start(maxBytes)
    await clock.advance(61_000)
    await expect.poll(usedBytes).toBeLessThanOrEqual(maxBytes * 1.05)
    expect(honest.map(stateOf)).toEqual(honest.map(() => 'SUCCEEDED'))
    expect(stateOf(evil[0]!)).toBeUndefined()
    expect(stateOf(evil.at(-1)!)).toBe('SUCCEEDED')
  })

  it('a device loses its lines in the jobs of others, and these keep their results', async () => {
    connect('evil')
    const job = submit({ device: undefined })
    await isSent(job)
    for (let n = 1; n <= 3; n++) event('evil', job, 1, n, piece(n, 16 * kb))
    event('evil', job, 1, 4, { type: 'failed', failure: 'unavailable', error: { code: 'NO', message: 'no' } })
    await expect.poll(() => stateOf(job)).toBe('QUEUED')
    bridge.presence.publish({
      kind: 'state',
      device: 'evil',
      state: { v: 1, state: 'lost', birth: 1, at: new Date(0).toISOString() },
    })
    connect('honest')
    await clock.advance(1_000)
    await isSent(job, 2)
    event('honest', job, 2, 1, { type: 'succeeded', result: { text: 'no' } })
    await expect.poll(() => stateOf(job)).toBe('SUCCEEDED')
    submit()
    const surplus = { doneMs: 0, deadMs: 0, bytes: new Map([['evil', 1]]) }
    expect([bridge.jobs.prune(surplus), bridge.jobs.prune(surplus)]).toEqual([1, 0])
    expect(bridge.jobs.find(job)).toMatchObject({ state: 'SUCCEEDED', result: { text: 'no' } })
    expect(textBytes(job)).toBe(0)
  })
})

it('a database of the last release is taken over with the shares of its devices', async () => {
  await stop()
  const path = join(dir.path, 'old.sqlite')
  const old = openDatabase(path, jobTables.slice(0, 2))
  const columns = 'kind, priority, input, terms, submitted_ms, ends_by_ms, state, devices, result, finished_ms'
  old.exec(
    `INSERT INTO jobs (${columns}) VALUES ('slm.generate', 5, '{}', '{}', 0, 9, 'SUCCEEDED', '["a","b"]', '{"text":"no"}', 5)`,
  )
  old.exec(`INSERT INTO jobs (${columns}) VALUES ('slm.generate', 5, '{}', '{}', 0, 9, 'TIMED_OUT', NULL, NULL, 5)`)
  old.exec(`INSERT INTO job_events VALUES (1, 1, 0, 1, 'a', 'text', '{"text":"no","from":0}')`)
  old.close()
  const store = openDatabase(path, jobTables)
  expect(store.prepare('SELECT device, job, owns FROM job_shares ORDER BY job').all()).toEqual([
    { device: 'b', job: 1, owns: 1 },
    { device: '', job: 2, owns: 1 },
  ])
  store.close()
  bridge = start()
})
