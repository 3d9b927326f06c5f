import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { jobRoutes } from '../../../cloud-bridge/api/jobs.ts'
import { PresenceFeed } from '../../../cloud-bridge/presence/presence-feed.ts'
import { createJobQueue, type JobQueue } from '../../../cloud-bridge/queue/job-queue.ts'
import { createJobStore, type JobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import { openDatabase, type Store } from '../../../core/kit/store/open-database.ts'
import { JobSubmission, type ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { startTestHttp } from '../../support/http.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const retentionMs = 300_000
let storageLimits: { attemptBytes: number; deviceBytesPerDay: number }
const dir = fresh(tempDir)
let store: Store
let jobs: JobStore
let queue: JobQueue
let presence: PresenceFeed
const clock = fresh(fakeClock)
/** The messages on the devices' `jobs` topics. */
let sent: (ToJobDevice & { device: string })[]
/** Unreadable messages of devices. */
let faults: string[]
beforeEach(() => {
  store = openDatabase(join(dir.path, 'jobs.sqlite'), jobTables)
  storageLimits = { attemptBytes: 2 ** 30, deviceBytesPerDay: 2 ** 30 }
  jobs = createJobStore(store, { next: () => 0.5 }, storageLimits)
  sent = []
  faults = []
  presence = new PresenceFeed(silentLogger())
  queue = createJobQueue({
    jobs,
    presence,
    retention: { doneMs: retentionMs, deadMs: 2 * retentionMs, maxJobs: 1_000, maxBytes: Number.MAX_SAFE_INTEGER },
    bridge: 'bridge-1',
    clock,
    wallMs: () => clock.nowMs(),
    publish(device, leaf, message) {
      if (leaf === 'jobs') sent.push({ ...(JSON.parse(message) as ToJobDevice), device })
    },
    onUnreadable: (device, leaf, reason) => void faults.push(`${leaf} of ${device}: ${reason}`),
    logger: silentLogger(),
  })
  queue.start()
})
afterEach(async () => {
  await queue.close()
  store.close()
  expect(faults).toEqual([])
})

const submit = () => queue.submit([JobSubmission.parse({ kind: 'slm.generate', input: { prompt: 'Is it far?' } })])[0]!.id
function connect(device: string): void {
  presence.publish({
    kind: 'state',
    device,
    state: { v: 1, state: 'ready', birth: 1, at: new Date(0).toISOString(), jobs: ['slm.generate'] },
  })
}
function report(device: string, job: string, attempt: number, ...types: string[]): void {
  for (const [i, type] of types.entries()) {
    const event = {
      v: 1,
      bridge: 'bridge-1',
      job,
      attempt,
      n: i + 1,
      at: new Date(0).toISOString(),
      type,
      result: { text: 'no' },
    }
    queue.onJobEvent(device, Buffer.from(JSON.stringify(event)))
  }
}
const runs = () => sent.filter(({ type }) => type === 'run').map(({ device, job, attempt }) => [device, job, attempt])

describe('damaged jobs', () => {
  const damage = (id: string, column: string, json = '{"prompt":"Is it') =>
    store.prepare(`UPDATE jobs SET ${column} = ? WHERE n = ?`).run(json, id.split('-')[1])

  it.each(['input', 'terms', 'devices', 'failures', 'error'])('with an unreadable %s fail, and others run', async (column) => {
    const [first, second, third] = [submit(), submit(), submit()]
    damage(first, column)
    damage(second, column, column === 'input' ? '' : '[{"attemptt":3}]')
    expect(jobs.list({ limit: 10 }).map(({ id }) => id)).toEqual([third, second, first])
    connect('a')
    await clock.advance(200)
    await expect.poll(runs).toEqual([['a', third, 1]])
    expect(jobs.countDamaged()).toBe(2)
    expect(jobs.find(first)).toMatchObject({ state: 'FAILED', error: { code: 'STORE_DAMAGED' } })
    expect(ids(jobs.list({ dead: true, limit: 10 }))).toEqual([second, first])
    expect(jobs.events(first, 0, 10)).toMatchObject([{ type: 'failed', data: { error: { code: 'STORE_DAMAGED' } } }])
  })

  it.each(['input', 'terms'])('with an unreadable %s that a device holds are canceled there, and free it', async (column) => {
    connect('a')
    const first = submit()
    await expect.poll(runs).toEqual([['a', first, 1]])
    damage(first, column)
    report('a', first, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(first)).toMatchObject({ state: 'FAILED', error: { code: 'STORE_DAMAGED' } })
    expect(sent.some(({ type, job }) => type === 'cancel' && job === first)).toBe(true)
    const second = submit()
    await expect.poll(runs).toEqual([
      ['a', first, 1],
      ['a', second, 1],
    ])
  })

  it('with an unreadable result or history are shown without it', async () => {
    connect('a')
    const first = submit()
    await expect.poll(runs).toEqual([['a', first, 1]])
    report('a', first, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(first)?.state).toBe('SUCCEEDED')
    damage(first, 'result')
    store.prepare("UPDATE job_events SET data = '{'").run()
    expect(jobs.find(first)).toMatchObject({ state: 'SUCCEEDED', result: null, error: { code: 'STORE_DAMAGED' } })
    expect(jobs.events(first, 0, 10).map(({ data }) => data)).toEqual([{}, {}, {}, {}])
  })
})

const ids = (list: readonly { id: string }[]) => list.map(({ id }) => id)

describe('the queue of a bridge', () => {
  it('gives each device one job to run and one to wait, and moves the waiting one to an idle device', async () => {
    connect('a')
    const [first, second, third] = [submit(), submit(), submit()]
    await expect.poll(runs).toEqual([
      ['a', first, 1],
      ['a', second, 1],
    ])
    report('a', first, 1, 'accepted', 'running')
    report('a', second, 1, 'accepted')
    await expect.poll(() => jobs.find(second)?.state).toBe('ACCEPTED')
    connect('b')
    await expect.poll(() => runs().slice(2)).toEqual([['b', third, 1]])
    connect('c')
    await expect.poll(() => runs().slice(3)).toEqual([['c', second, 2]])
    expect(sent).toContainEqual(expect.objectContaining({ type: 'cancel', device: 'a', job: second, attempt: 1 }))
    expect(jobs.find(first)).toMatchObject({ state: 'RUNNING', device: 'a', attempt: 1 })
  })

  it('rejects an oversized event', async () => {
    connect('a')
    const job = submit()
    await expect.poll(runs).toHaveLength(1)
    const large = { v: 1, bridge: 'bridge-1', job, attempt: 1, n: 1, at: new Date(0).toISOString(), type: 'succeeded' }
    queue.onJobEvent('a', Buffer.from(JSON.stringify({ ...large, result: { text: 'x'.repeat(250_000) } })))
    expect(faults.splice(0)).toEqual([expect.stringContaining('events of a: 250')])
    report('a', job, 1, 'accepted')
    await expect.poll(() => jobs.find(job)?.state).toBe('ACCEPTED')
    report('a', job, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(job)).toMatchObject({ state: 'SUCCEEDED', result: { text: 'no' } })
  })

  it('fails an attempt whose pieces together exceed the limit of an attempt', async () => {
    storageLimits.attemptBytes = 200_000
    connect('a')
    const job = submit()
    await expect.poll(runs).toHaveLength(1)
    const text = 'x'.repeat(50_000)
    const piece = { v: 1, bridge: 'bridge-1', job, attempt: 1, at: new Date(0).toISOString(), type: 'text', text }
    for (let n = 1; n <= 8; n++) {
      // Repeated events count once.
      for (let times = 0; times < 3; times++)
        queue.onJobEvent('a', Buffer.from(JSON.stringify({ ...piece, n, from: (n - 1) * text.length })))
    }
    await expect.poll(() => jobs.find(job)).toMatchObject({ state: 'REJECTED', error: { code: 'REQUEST_INVALID' } })
    expect(jobs.events(job, 0, 100).filter(({ type }) => type === 'text')).toHaveLength(3)
    await expect.poll(() => sent.at(-1)).toMatchObject({ type: 'cancel', device: 'a', job, attempt: 1 })
  })

  it('ends an attempt after stepS without progress, and after runS in any case', async () => {
    connect('a')
    const fields = { kind: 'slm.generate', input: { prompt: 'Is it far?' }, attempts: 1 }
    const [silent] = queue.submit([JobSubmission.parse({ ...fields, timeouts: { stepS: 5, runS: 60 } })])
    await expect.poll(runs).toHaveLength(1)
    report('a', silent!.id, 1, 'accepted', 'running')
    await expect.poll(() => jobs.find(silent!.id)?.state).toBe('RUNNING')
    await clock.advance(5_000)
    await expect
      .poll(() => jobs.find(silent!.id))
      .toMatchObject({ state: 'TIMED_OUT', error: { message: expect.stringContaining('no progress') } })
    expect(sent.at(-1)).toMatchObject({ type: 'cancel', job: silent!.id })
    const [active] = queue.submit([JobSubmission.parse({ ...fields, timeouts: { stepS: 5, runS: 12 } })])
    await expect.poll(runs).toHaveLength(2)
    for (let beats = 1; beats <= 4; beats++) {
      report('a', active!.id, 1, 'accepted', ...Array.from({ length: beats }, () => 'running'))
      await expect
        .poll(() => store.prepare('SELECT heard_n FROM jobs ORDER BY n DESC LIMIT 1').get())
        .toEqual({ heard_n: beats + 1 })
      await clock.advance(3_000)
    }
    await expect
      .poll(() => jobs.find(active!.id))
      .toMatchObject({ state: 'TIMED_OUT', error: { message: 'a did not finish in time' } })
  })

  it('loses no job in an outage of the broker: it dispatches nothing, and late results count', async () => {
    connect('a')
    const [running, waiting] = [submit(), submit()]
    await expect.poll(runs).toHaveLength(2)
    report('a', running, 1, 'accepted', 'running')
    await expect.poll(() => jobs.find(running)?.state).toBe('RUNNING')
    for (let s = 0; s < 1_800; s += 5) {
      presence.publish({ kind: 'broker lost' })
      await clock.advance(5_000)
    }
    expect([jobs.find(running), jobs.find(waiting)]).toMatchObject([
      { state: 'QUEUED', failures: { lost: 1 } },
      { state: 'QUEUED', failures: { lost: 1 } },
    ])
    expect(runs()).toHaveLength(2)
    report('a', running, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(running)?.state).toBe('SUCCEEDED')
    connect('a')
    await expect.poll(() => runs().slice(2)).toEqual([['a', waiting, 2]])
  })

  it('notifies the clients that watch a job when its device disconnects and returns', async () => {
    connect('a')
    const job = submit()
    await expect.poll(runs).toHaveLength(1)
    report('a', job, 1, 'accepted', 'running')
    await expect.poll(() => jobs.find(job)?.state).toBe('RUNNING')
    const seen: unknown[] = []
    const stop = queue.watch(job, () => seen.push(jobs.events(job, 0, 100).at(-1)?.type))
    presence.publish({ kind: 'state', device: 'a', state: { v: 1, state: 'lost', birth: 1, at: new Date(0).toISOString() } })
    connect('a')
    presence.publish({ kind: 'broker lost' })
    expect(seen).toEqual(['away', 'back', 'away'])
    stop()
  })

  it('breaks the stream of a slow client when its job is deleted', async () => {
    connect('a')
    const job = submit()
    await expect.poll(runs).toHaveLength(1)
    await using http = await startTestHttp([
      jobRoutes(queue, jobs, { isKnown: () => true, findBundle: () => Promise.reject(new Error('no bundles')) }),
    ])
    const piece = { job, device: 'a', attempt: 1, report: { type: 'progress' as const } }
    const text = 'x'.repeat(100_000)
    jobs.storeReports(
      Array.from({ length: 200 }, (_, i) => ({ ...piece, n: i + 1, data: { text, from: i * text.length } })),
      clock.nowMs(),
    )
    const watcher = get(`${http.url}/v1/jobs/${job}/events`, { headers: { accept: 'text/event-stream' } })
    const [stream] = (await once(watcher, 'response')) as [IncomingMessage]
    queue.cancel(job)
    submit()
    for (let isDeleted = false; !isDeleted; isDeleted = jobs.find(job) === undefined)
      jobs.prune({ doneMs: Number.MAX_SAFE_INTEGER, deadMs: 0, bytes: new Map() })
    const cut = once(stream, 'error')
    stream.resume()
    expect(await cut).toMatchObject([{ code: 'ECONNRESET' }])
  })

  it('deletes expired jobs while it serves', async () => {
    connect('a')
    const old = submit()
    await expect.poll(runs).toHaveLength(1)
    report('a', old, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(old)?.state).toBe('SUCCEEDED')
    await clock.advance(200_000)
    const young = submit()
    await expect.poll(runs).toHaveLength(2)
    report('a', young, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(young)?.state).toBe('SUCCEEDED')
    await clock.advance(retentionMs - 200_000 + 60_000)
    await expect.poll(() => jobs.find(old)).toBeUndefined()
    expect(jobs.find(young)?.state).toBe('SUCCEEDED')
  })

  it('measures the time from sending a job to storing its acceptance', async () => {
    connect('a')
    const job = submit()
    await expect.poll(runs).toHaveLength(1)
    expect(queue.dispatchMs).toEqual({ p50: null, p99: null, count: 0 })
    await clock.advance(7)
    report('a', job, 1, 'accepted', 'running')
    await expect.poll(() => queue.dispatchMs).toEqual({ p50: 7, p99: 7, count: 1 })
  })

  it('dispatches nothing to a draining device, which keeps its jobs', async () => {
    connect('a')
    const [first, second, third] = [submit(), submit(), submit()]
    await expect.poll(runs).toHaveLength(2)
    presence.publish({
      kind: 'state',
      device: 'a',
      state: { v: 1, state: 'draining', birth: 1, at: new Date(0).toISOString(), jobs: ['slm.generate'] },
    })
    report('a', first, 1, 'accepted', 'running', 'succeeded')
    await expect.poll(() => jobs.find(first)?.state).toBe('SUCCEEDED')
    expect([jobs.find(second), jobs.find(third)]).toMatchObject([{ device: 'a' }, { state: 'QUEUED' }])
    expect(runs().every(([, job]) => job !== third)).toBe(true)
  })
})
