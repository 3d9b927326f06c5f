import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { createDeviceJobs, type DeviceJobs } from '../../../agent/jobs/device-jobs.ts'
import type { JobHandler } from '../../../agent/jobs/job-handler.ts'
import { JobLedger, ledgerMigrations } from '../../../agent/jobs/ledger.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { type JobAck, JobEvent } from '../../../core/wire/protocol/jobs.ts'
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const job = '0123abcd-1'
const bytes = (message: object) => Buffer.from(JSON.stringify(message))
const run = (fields: object = {}) =>
  bytes({ v: 1, type: 'run', bridge: 'bridge-1', job, attempt: 1, kind: 'echo', input: { text: 'hello' }, ...fields })
const cancel = (attempt = 1) => bytes({ v: 1, type: 'cancel', bridge: 'bridge-1', job, attempt })
const ack = (n: number, attempt = 1) => bytes({ v: 1, bridge: 'bridge-1', job, attempt, n } satisfies JobAck)

let dir: TempDir | undefined
const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  dir?.[Symbol.dispose]()
  dir = undefined
})

interface Device {
  readonly port: { onJob(payload: Uint8Array): void; onAck(payload: Uint8Array): void }
  readonly events: JobEvent[]
  readonly clock: FakeClock
  /** The kinds of jobs in each state that was published again. */
  readonly kindsPublished: readonly (readonly string[])[]
  /** Makes the disk fail every write, or none. */
  fill(isFull: boolean): void
  /** How often the handler was called. */
  readonly calls: () => number
  readonly counts: () => DeviceJobs['counts']
  drain(): Promise<void>
  close(): Promise<void>
  /** Ends the process without a shutdown. */
  kill(): void
}

function device(handler?: JobHandler): Device {
  dir ??= tempDir()
  const store = openDatabase(join(dir.path, 'jobs.sqlite'), ledgerMigrations)
  /** Makes every write fail as on a full disk, or succeed again. */
  const fill = (isFull: boolean) => void store.pragma(`query_only = ${isFull ? 'ON' : 'OFF'}`)
  const clock = fakeClock()
  let count = 0
  const echo: JobHandler = async (...given) => {
    count += 1
    return (handler ?? (async (input) => input as Record<string, unknown>))(...given)
  }
  const jobs = createDeviceJobs({ ledger: new JobLedger(store), clock, logger: silentLogger() })
  const { handlers, onConnection, stateFields } = jobs.service('mqtt://a')
  const port = { onJob: handlers.jobs, onAck: handlers.acks }
  const events: JobEvent[] = []
  const kindsPublished: (readonly string[])[] = []
  onConnection({
    publish: async (_leaf, event) => events.push(JobEvent.parse(JSON.parse(event))) > 0,
    publishState: async () => kindsPublished.push(stateFields().jobs) > 0,
  })
  jobs.start({ echo, 'bundle.install': echo })
  let isOpen = true
  const close = async () => {
    if (!isOpen) return
    isOpen = false
    await jobs.close()
    store.close()
  }
  closers.push(close)
  const kill = () => {
    isOpen = false
    store.close()
  }
  const { drain } = jobs
  return { port, events, clock, kindsPublished, fill, calls: () => count, counts: () => jobs.counts, drain, close, kill }
}

const types = (events: readonly JobEvent[]) => events.map(({ type }) => type)
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new BrimError('CANCELED', 'stopped'))))

it('a damaged job of an earlier start fails, and the others run', async () => {
  const first = device(() => new Promise(() => {}))
  first.port.onJob(run())
  first.port.onJob(run({ job: '0123abcd-2' }))
  await expect.poll(first.calls).toBe(1)
  first.kill()
  const store = openDatabase(join(dir!.path, 'jobs.sqlite'), ledgerMigrations)
  store.prepare("UPDATE ledger SET input = '{' WHERE job <> '0123abcd-2'").run()
  store.close()
  const next = device()
  await expect.poll(() => types(next.events)).toContain('succeeded')
  const damaged = next.events.filter(({ job }) => job !== '0123abcd-2')
  expect(damaged).toMatchObject([{ type: 'failed', error: { code: 'STORE_DAMAGED' } }])
  expect(next.calls()).toBe(1)
})

describe('a device that drains', () => {
  it('ends the job that runs, and begins the waiting one only after its next start', async () => {
    let end = () => {}
    const { port, events, drain, calls, close } = device(
      () =>
        new Promise((resolve) => {
          end = () => resolve({ text: 'done' })
        }),
    )
    port.onJob(run())
    port.onJob(run({ job: '0123abcd-2' }))
    await expect.poll(calls).toBe(1)
    let isDrained = false
    const drained = drain().then(() => {
      isDrained = true
    })
    await new Promise((turn) => setImmediate(turn))
    expect(isDrained).toBe(false)
    end()
    await drained
    expect(types(events).filter((type) => type === 'succeeded')).toHaveLength(1)
    expect(calls()).toBe(1)
    await close()
    const next = device()
    await expect.poll(() => types(next.events)).toContain('succeeded')
    expect(next.calls()).toBe(1)
  })

  it('hands a job back as interrupted that does not end in time', async () => {
    const { port, events, drain, calls, close } = device((_input, _emit, signal) => untilAborted(signal))
    port.onJob(run())
    await expect.poll(calls).toBe(1)
    const drained = drain()
    await close()
    await drained
    expect(events.at(-1)).toMatchObject({ type: 'failed', failure: 'interrupted' })
  })
})

describe('a job on a device', () => {
  it('is accepted, runs and succeeds, with numbered events', async () => {
    const { port, events } = device()
    port.onJob(run())
    await expect.poll(() => events.length).toBe(3)
    expect(events.map(({ type, n, attempt }) => [type, n, attempt])).toEqual([
      ['accepted', 1, 1],
      ['running', 2, 1],
      ['succeeded', 3, 1],
    ])
    expect(events[2]).toMatchObject({ result: { text: 'hello' } })
  })

  it.each([
    ['of a newer version', { v: 2 }, 'PROTOCOL_VERSION', 'supports version 1'],
    ['whose kind is no string', { kind: 7 }, 'MESSAGE_INVALID', '"kind": must be a string'],
    ['of an unknown type', { type: 'pause' }, 'MESSAGE_INVALID', '"type": has none of the allowed forms'],
  ])('%s is refused with the reason, and a newer attempt still runs', async (_, fields, code, why) => {
    const { port, events, calls } = device()
    port.onJob(run(fields))
    expect(events).toMatchObject([
      { type: 'failed', n: 1, attempt: 1, failure: 'refused', error: { code, message: expect.stringContaining(why) } },
    ])
    port.onAck(ack(1))
    port.onJob(run({ attempt: 2 }))
    await expect.poll(() => types(events)).toEqual(['failed', 'accepted', 'running', 'succeeded'])
    expect(calls()).toBe(1)
  })

  it('continues after unreadable messages about it; those without an address get no reply', async () => {
    let finish = () => {}
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    const { port, events } = device(async () => {
      await finished
      return {}
    })
    port.onJob(run())
    await expect.poll(() => types(events)).toEqual(['accepted', 'running'])
    port.onJob(run({ type: 'pause' }))
    port.onJob(run({ attempt: 'two' }))
    port.onJob(Buffer.from('not JSON'))
    port.onAck(Buffer.from('{"v":2}'))
    finish()
    await expect.poll(() => types(events)).toEqual(['accepted', 'running', 'succeeded'])
  })

  it('resends its final event until the bridge acknowledges it, after a power cut too', async () => {
    const first = device()
    first.port.onJob(run())
    await expect.poll(() => types(first.events)).toContain('succeeded')
    first.port.onAck(ack(2))
    await first.clock.advance(2_000)
    expect(types(first.events)).toEqual(['accepted', 'running', 'succeeded', 'succeeded'])
    first.kill()
    const second = device()
    expect(types(second.events)).toEqual(['succeeded'])
    second.port.onAck(ack(3))
    await second.clock.advance(10_000)
    expect(types(second.events)).toEqual(['succeeded'])
  })

  it('resends at growing intervals to a silent bridge, and soon after a message from it', async () => {
    const { port, events, clock } = device()
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('succeeded')
    const resent = () => types(events).filter((type) => type === 'succeeded').length
    for (let s = 0; s < 3_600; s += 2) await clock.advance(2_000)
    // At once, after 2, 6, 14, 30 and 62 s, and then every 32 s.
    expect(resent()).toBeGreaterThan(100)
    expect(resent()).toBeLessThan(130)
    const before = resent()
    port.onAck(bytes({ v: 1, bridge: 'bridge-1', job: '0123abcd-2', attempt: 1, n: 1 } satisfies JobAck))
    await clock.advance(2_000)
    expect(resent()).toBe(before + 1)
  })

  it('runs once, however often it is sent, and reports its result for newer attempts too', async () => {
    const { port, events, calls } = device()
    port.onJob(run())
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('succeeded')
    port.onAck(ack(3))
    port.onJob(run())
    port.onJob(run({ attempt: 2 }))
    expect(events.filter(({ type }) => type === 'succeeded').map(({ attempt }) => attempt)).toEqual([1, 1, 2])
    expect(events.at(-1)).toMatchObject({ attempt: 2, result: { text: 'hello' } })
    expect(calls()).toBe(1)
  })

  it('runs again after a failure only for a newer attempt', async () => {
    let failures = 1
    const { port, events, calls } = device(async (input) => {
      if (failures-- > 0) throw new BrimError('OUT_OF_MEMORY', 'no memory')
      return input as Record<string, unknown>
    })
    port.onJob(run())
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'failed', failure: 'failed', error: { code: 'OUT_OF_MEMORY' } })
    port.onJob(run())
    expect(calls()).toBe(1)
    port.onAck(ack(3))
    port.onJob(run({ attempt: 2 }))
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'succeeded', attempt: 2, result: { text: 'hello' } })
  })

  it('runs after a power cut if it was waiting, and fails as interrupted if it was running', async () => {
    const first = device((_, __, signal) => untilAborted(signal))
    first.port.onJob(run())
    await expect.poll(() => types(first.events)).toEqual(['accepted', 'running'])
    first.port.onJob(run({ job: '0123abcd-2' }))
    first.kill()
    const second = device()
    await expect.poll(() => types(second.events)).toContain('succeeded')
    expect(second.events.find((event) => event.job === job)).toMatchObject({ type: 'failed', failure: 'interrupted' })
    expect(second.events.find(({ type }) => type === 'succeeded')?.job).toBe('0123abcd-2')
    expect(second.calls()).toBe(1)
  })

  it('keeps the sentences that it has finished for its next attempt, also after its agent was killed', async () => {
    const common = { sketch: 0, candidate: 0, model: 'slm', tokens: 3, meanLog2Probability: -1 }
    const sentence = (at: number) => ({ ...common, sentence: at, text: `Sentence ${at}.` })
    const first = device((_, __, signal, { sentence: report }) => {
      report(sentence(0))
      report(sentence(1))
      return untilAborted(signal)
    })
    first.port.onJob(run())
    await expect.poll(() => types(first.events)).toEqual(['accepted', 'running', 'sentence', 'sentence'])
    first.kill()

    const seen: (readonly object[])[] = []
    const second = device(async (_, __, ___, { finishedSentences, sentence: report }) => {
      seen.push(finishedSentences)
      for (const finished of finishedSentences) report(finished)
      return {}
    })
    second.port.onJob(run({ attempt: 2 }))
    second.port.onJob(run({ job: '0123abcd-2' }))
    await expect.poll(() => types(second.events).filter((type) => type === 'succeeded')).toHaveLength(2)
    expect(seen).toEqual([[sentence(0), sentence(1)], []])
    expect(second.events.filter(({ type }) => type === 'sentence')).toMatchObject([sentence(0), sentence(1)])
  })

  it('stops when it is canceled, waiting or running', async () => {
    const { port, events } = device((_, __, signal) => untilAborted(signal))
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('running')
    const waiting = { v: 1, bridge: 'bridge-1', job: '0123abcd-2', attempt: 1 }
    port.onJob(run(waiting))
    port.onJob(bytes({ ...waiting, type: 'cancel' }))
    expect(events.at(-1)).toMatchObject({ type: 'canceled', job: '0123abcd-2' })
    port.onJob(cancel(2))
    port.onJob(cancel())
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'canceled', job })
  })

  it('is canceled by a newer attempt of itself', async () => {
    let isFirst = true
    const { port, events } = device((_, __, signal) => {
      if (!isFirst) return Promise.resolve({ text: 'second' })
      isFirst = false
      return untilAborted(signal)
    })
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('running')
    port.onJob(run({ attempt: 2 }))
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'succeeded', attempt: 2, result: { text: 'second' } })
    expect(events.filter(({ attempt, type }) => attempt === 1 && type === 'canceled')).toEqual([])
  })

  it('is ended once, by its current attempt only', () => {
    dir ??= tempDir()
    const store = openDatabase(join(dir.path, 'ledger.sqlite'), ledgerMigrations)
    closers.push(async () => void store.close())
    const ledger = new JobLedger(store)
    const at = { v: 1 as const, bridge: 'bridge-1', job }
    const add = (attempt: number) => ledger.add('mqtt://a', { ...at, type: 'run', attempt, kind: 'echo', input: {} })
    const finish = (attempt: number, text: string) =>
      ledger.finish({ ...at, attempt, n: 3, at: '2026-01-01T00:00:00.000Z', type: 'succeeded', result: { text } })
    add(1)
    ledger.begin('work')
    add(2)
    expect(finish(1, 'late')).toBe(false)
    expect(ledger.find('bridge-1', job)).toMatchObject({ state: 'waiting', attempt: 2, lastEvent: null })
    ledger.begin('work')
    expect([finish(2, 'first'), finish(2, 'again')]).toEqual([true, false])
    expect(store.prepare('SELECT finished FROM ledger').pluck().all()).toEqual([1])
    expect(ledger.find('bridge-1', job)).toMatchObject({ state: 'done', lastEvent: { result: { text: 'first' } } })
    ledger.acknowledge('bridge-1', job, 2, 3)
    expect(ledger.find('bridge-1', job)).toMatchObject({ input: null, lastEvent: { result: { text: 'first' } } })
  })

  it('is refused if its result is oversized, and ignored if its message is', async () => {
    const { port, events, calls } = device(async () => ({ text: 'x'.repeat(200_000) }))
    port.onJob(run())
    const message = expect.stringMatching(/^the result has 2000\d\d bytes; the limit is 196608$/)
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'failed', failure: 'refused', error: { message } })
    port.onJob(run({ job: '0123abcd-2', input: { text: 'x'.repeat(250_000) } }))
    port.onJob(run({ job: '0123abcd-3' }))
    await expect.poll(() => events.at(-1)).toMatchObject({ job: '0123abcd-3', type: 'failed' })
    expect(new Set(events.map((event) => event.job))).toEqual(new Set([job, '0123abcd-3']))
    expect(calls()).toBe(2)
  })

  it('is refused if the device does not support its kind', async () => {
    const { port, events } = device()
    port.onJob(run({ kind: 'make.coffee' }))
    await expect
      .poll(() => events.at(-1))
      .toMatchObject({
        type: 'failed',
        failure: 'refused',
        error: { message: 'this device does not support make.coffee; it supports echo, bundle.install' },
      })
  })

  it('reports the pieces of its answer with their offsets', async () => {
    let clock: FakeClock | undefined
    const {
      port,
      events,
      clock: own,
    } = device(async (_, emitText) => {
      for (const piece of ['one ', 'two ', 'three']) {
        await clock?.advance(100)
        emitText(piece)
      }
      return { text: 'one two three' }
    })
    clock = own
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('succeeded')
    const pieces = events.flatMap((event) => (event.type === 'text' ? [[event.n, event.from, event.text]] : []))
    expect(pieces).toEqual([
      [3, 0, 'one '],
      [4, 4, 'two '],
      [5, 8, 'three'],
    ])
  })

  it('that changes the device runs beside other work, one at a time, and is canceled by itself', async () => {
    const { port, events } = device((_, __, signal) => untilAborted(signal))
    const install = (n: number, fields: object = {}) => run({ job: `0123abcd-${n}`, kind: 'bundle.install', ...fields })
    port.onJob(run())
    port.onJob(install(2))
    port.onJob(install(3))
    const running = () => events.flatMap((event) => (event.type === 'running' ? [event.job] : []))
    await expect.poll(running).toEqual([job, '0123abcd-2'])
    port.onJob(install(2, { type: 'cancel' }))
    await expect.poll(running).toEqual([job, '0123abcd-2', '0123abcd-3'])
    expect(types(events).filter((type) => type === 'canceled')).toHaveLength(1)
  })

  it('has the probe that its message carries beside its input', async () => {
    const { port, events } = device()
    port.onJob(run({ kind: 'bundle.install', probe: { prompt: 'Hello' } }))
    await expect.poll(() => events.at(-1)).toMatchObject({ result: { text: 'hello', probe: { prompt: 'Hello' } } })
  })

  it('does not pile up events that show only that it goes on while no bridge acknowledges them', async () => {
    const { port, events, clock } = device((_, __, signal) => untilAborted(signal))
    port.onJob(run())
    await expect.poll(() => types(events)).toEqual(['accepted', 'running'])
    for (let s = 0; s < 600; s += 15) await clock.advance(15_000)
    expect(Math.max(...events.map(({ n }) => n))).toBe(4)
    port.onAck(ack(4))
    await clock.advance(15_000)
    expect(events.at(-1)).toMatchObject({ type: 'running', n: 5 })
  })

  it('reports that it still runs every 15 s, and its progress at most every 2 s', async () => {
    let progress = (_doneBytes: number, _totalBytes: number) => {}
    let finish = () => {}
    const { port, events, clock } = device(async (_input, _emitText, _signal, job) => {
      progress = job.progress
      await new Promise<void>((resolve) => {
        finish = resolve
      })
      return {}
    })
    port.onJob(run())
    await expect.poll(() => types(events)).toEqual(['accepted', 'running'])
    port.onAck(ack(2))
    progress(1, 9)
    progress(2, 9)
    await clock.advance(2_000)
    progress(3, 9)
    port.onAck(ack(4))
    await clock.advance(13_000)
    expect(events.slice(2)).toMatchObject([
      { type: 'progress', doneBytes: 1, totalBytes: 9 },
      { type: 'progress', doneBytes: 1 },
      { type: 'progress', doneBytes: 3 },
      { type: 'running', n: 5 },
    ])
    finish()
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'succeeded', n: 6 })
  })

  it('is declined while the disk does not store it, and the device announces when it takes jobs again', async () => {
    const { port, events, clock, kindsPublished, fill } = device()
    fill(true)
    port.onJob(run())
    port.onJob(run())
    expect(events).toMatchObject(
      [1, 2].map(() => ({ type: 'failed', n: 1, attempt: 1, failure: 'unavailable', error: { code: 'STORE_FAILED' } })),
    )
    expect(kindsPublished).toEqual([[]])
    await clock.advance(10_000)
    expect(kindsPublished).toEqual([[]])
    fill(false)
    await clock.advance(2_000)
    expect(kindsPublished).toEqual([[], ['echo', 'bundle.install']])
    port.onJob(run({ attempt: 2 }))
    await expect.poll(() => types(events)).toEqual(['failed', 'failed', 'accepted', 'running', 'succeeded'])
  })

  it('keeps its result when it succeeded before the disk failed', async () => {
    const { port, events, fill } = device()
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('succeeded')
    fill(true)
    port.onJob(run({ attempt: 2 }))
    expect(events.at(-1)).toMatchObject({ type: 'succeeded', attempt: 2, result: { text: 'hello' } })
  })

  it('reports its result although the disk does not store it, and again once it does', async () => {
    let fill = (_isFull: boolean) => {}
    const own = device(async () => {
      fill(true)
      return { text: 'done' }
    })
    fill = own.fill
    own.port.onJob(run())
    await expect.poll(() => types(own.events)).toEqual(['accepted', 'running', 'succeeded'])
    own.port.onAck(ack(3))
    await own.clock.advance(10_000)
    expect(types(own.events).filter((type) => type === 'succeeded')).toHaveLength(1)
    fill(false)
    await expect
      .poll(async () => {
        await own.clock.advance(2_000)
        return types(own.events).filter((type) => type === 'succeeded').length
      })
      .toBeGreaterThan(1)
    own.port.onAck(ack(3))
  })

  it('is canceled although the disk does not store that', async () => {
    const { port, events, fill } = device((_, __, signal) => untilAborted(signal))
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('running')
    const waiting = { v: 1, bridge: 'bridge-1', job: '0123abcd-2', attempt: 1 }
    port.onJob(run(waiting))
    fill(true)
    port.onJob(bytes({ ...waiting, type: 'cancel' }))
    expect(events.at(-1)).toMatchObject({ type: 'canceled', job: '0123abcd-2' })
    fill(false)
  })

  it('counts waiting and running jobs', async () => {
    const { port, events, counts } = device((_, __, signal) => untilAborted(signal))
    for (const name of ['0123abcd-1', '0123abcd-2', '0123abcd-3']) port.onJob(run({ job: name }))
    await expect.poll(() => types(events)).toContain('running')
    expect(counts()).toEqual({ waiting: 2, running: 1 })
  })
})
