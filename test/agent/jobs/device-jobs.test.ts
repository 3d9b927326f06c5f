import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { createDeviceJobs, type JobPort } from '../../../agent/jobs/device-jobs.ts'
import type { JobHandler } from '../../../agent/jobs/job-handler.ts'
import { JobLedger, ledgerTable } from '../../../agent/jobs/ledger.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { type JobAck, JobEvent } from '../../../core/protocol/jobs.ts'
import { openDatabase } from '../../../core/store/open-database.ts'
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
  readonly port: JobPort
  readonly events: JobEvent[]
  readonly clock: FakeClock
  /** How often the work has begun. */
  readonly begun: () => number
  close(): Promise<void>
  /** The process ends without a word. */
  kill(): void
}

function device(work?: JobHandler): Device {
  dir ??= tempDir()
  const store = openDatabase(join(dir.path, 'jobs.sqlite'), [ledgerTable])
  const clock = fakeClock()
  let count = 0
  const echo: JobHandler = async (...given) => {
    count += 1
    return (work ?? (async (input) => input as Record<string, unknown>))(...given)
  }
  const jobs = createDeviceJobs({ ledger: new JobLedger(store), clock, logger: silentLogger() })
  const port = jobs.port('mqtt://a')
  const events: JobEvent[] = []
  port.onLink((event) => events.push(JobEvent.parse(JSON.parse(event))))
  jobs.start({ echo })
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
  return { port, events, clock, begun: () => count, close, kill }
}

const types = (events: readonly JobEvent[]) => events.map(({ type }) => type)
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(new BrimError('CANCELED', 'stopped'))))

describe('a job on a device', () => {
  it('is accepted, runs and succeeds, each event counted', async () => {
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
    ['of a newer version', { v: 2 }, 'PROTOCOL_VERSION', 'only version 1'],
    ['whose kind is no word', { kind: 7 }, 'MESSAGE_INVALID', '"kind": Invalid input: expected string'],
    ['of a type that is not known', { type: 'pause' }, 'MESSAGE_INVALID', '"type": Invalid'],
  ])('%s is refused with the reason, and costs nothing', async (_, fields, code, why) => {
    const { port, events, begun } = device()
    port.onJob(run(fields))
    expect(events).toMatchObject([
      { type: 'failed', n: 1, attempt: 1, failure: 'refused', error: { code, message: expect.stringContaining(why) } },
    ])
    port.onAck(ack(1))
    port.onJob(run({ attempt: 2 }))
    await expect.poll(() => types(events)).toEqual(['failed', 'accepted', 'running', 'succeeded'])
    expect(begun()).toBe(1)
  })

  it('goes on when something is said of it that cannot be read; what has no address is not answered', async () => {
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

  it('has its last event said again until the bridge has acknowledged it, across a power cut', async () => {
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

  it('is told ever more seldom while no bridge answers, and at once when one does', async () => {
    const { port, events, clock } = device()
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('succeeded')
    const said = () => types(events).filter((type) => type === 'succeeded').length
    for (let s = 0; s < 3_600; s += 2) await clock.advance(2_000)
    // At once, after 2, 6, 14, 30 and 62 s, and then every 32 s.
    expect(said()).toBeGreaterThan(100)
    expect(said()).toBeLessThan(130)
    const before = said()
    port.onAck(bytes({ v: 1, bridge: 'bridge-1', job: '0123abcd-2', attempt: 1, n: 1 } satisfies JobAck))
    await clock.advance(2_000)
    expect(said()).toBe(before + 1)
  })

  it('is done once, however often it is sent, and its result is said for whatever attempt asks', async () => {
    const { port, events, begun } = device()
    port.onJob(run())
    port.onJob(run())
    await expect.poll(() => types(events)).toContain('succeeded')
    port.onAck(ack(3))
    port.onJob(run())
    port.onJob(run({ attempt: 2 }))
    expect(events.filter(({ type }) => type === 'succeeded').map(({ attempt }) => attempt)).toEqual([1, 1, 2])
    expect(events.at(-1)).toMatchObject({ attempt: 2, result: { text: 'hello' } })
    expect(begun()).toBe(1)
  })

  it('that has failed is done again for a new attempt alone', async () => {
    let failures = 1
    const { port, events, begun } = device(async (input) => {
      if (failures-- > 0) throw new BrimError('OUT_OF_MEMORY', 'no room')
      return input as Record<string, unknown>
    })
    port.onJob(run())
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'failed', failure: 'failed', error: { code: 'OUT_OF_MEMORY' } })
    port.onJob(run())
    expect(begun()).toBe(1)
    port.onAck(ack(3))
    port.onJob(run({ attempt: 2 }))
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'succeeded', attempt: 2, result: { text: 'hello' } })
  })

  it('that was waiting is done after a power cut; one that was at work came to nothing', async () => {
    const first = device((_, __, signal) => untilAborted(signal))
    first.port.onJob(run())
    await expect.poll(() => types(first.events)).toEqual(['accepted', 'running'])
    first.port.onJob(run({ job: '0123abcd-2' }))
    first.kill()
    const second = device()
    await expect.poll(() => types(second.events)).toContain('succeeded')
    expect(second.events.find((event) => event.job === job)).toMatchObject({ type: 'failed', failure: 'interrupted' })
    expect(second.events.find(({ type }) => type === 'succeeded')?.job).toBe('0123abcd-2')
    expect(second.begun()).toBe(1)
  })

  it('is stopped when it is canceled, at work or not', async () => {
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

  it('gives way to a newer attempt of itself', async () => {
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

  it('is ended by its own attempt alone, and once', () => {
    dir ??= tempDir()
    const store = openDatabase(join(dir.path, 'ledger.sqlite'), [ledgerTable])
    closers.push(async () => void store.close())
    const ledger = new JobLedger(store)
    const at = { v: 1 as const, bridge: 'bridge-1', job }
    const taken = (attempt: number) => ledger.add('mqtt://a', { ...at, type: 'run', attempt, kind: 'echo', input: {} })
    const ends = (attempt: number, text: string) =>
      ledger.finish({ ...at, attempt, n: 3, at: '2026-01-01T00:00:00.000Z', type: 'succeeded', result: { text } })
    taken(1)
    ledger.begin()
    taken(2)
    expect(ends(1, 'late')).toBe(false)
    expect(ledger.find('bridge-1', job)).toMatchObject({ state: 'waiting', attempt: 2, lastEvent: null })
    ledger.begin()
    expect([ends(2, 'first'), ends(2, 'again')]).toEqual([true, false])
    expect(ledger.find('bridge-1', job)).toMatchObject({ state: 'done', lastEvent: { result: { text: 'first' } } })
    ledger.acknowledge('bridge-1', job, 2, 3)
    expect(ledger.find('bridge-1', job)).toMatchObject({ input: null, lastEvent: { result: { text: 'first' } } })
  })

  it('is refused where its result is larger than an event may be, and not read where it is larger than any job', async () => {
    const { port, events, begun } = device(async () => ({ text: 'x'.repeat(200_000) }))
    port.onJob(run())
    const message = expect.stringMatching(/^the result has 2000\d\d bytes; the limit is 196608$/)
    await expect.poll(() => events.at(-1)).toMatchObject({ type: 'failed', failure: 'refused', error: { message } })
    port.onJob(run({ job: '0123abcd-2', input: { text: 'x'.repeat(250_000) } }))
    port.onJob(run({ job: '0123abcd-3' }))
    await expect.poll(() => events.at(-1)).toMatchObject({ job: '0123abcd-3', type: 'failed' })
    expect(new Set(events.map((event) => event.job))).toEqual(new Set([job, '0123abcd-3']))
    expect(begun()).toBe(2)
  })

  it('of a kind that the device does not know is refused', async () => {
    const { port, events } = device()
    port.onJob(run({ kind: 'make.coffee' }))
    await expect
      .poll(() => events.at(-1))
      .toMatchObject({
        type: 'failed',
        failure: 'refused',
        error: { message: 'this device does not support make.coffee; it supports echo' },
      })
  })

  it('says pieces of its answer with their places, and again those that are not acknowledged', async () => {
    let clock: FakeClock | undefined
    const {
      port,
      events,
      clock: own,
    } = device(async (_, say) => {
      for (const piece of ['one ', 'two ', 'three']) {
        await clock?.advance(100)
        say(piece)
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
})
