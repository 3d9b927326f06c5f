import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { PresenceFeed } from '../../../cloud-bridge/presence/presence-feed.ts'
import { openJobs } from '../../../cloud-bridge/queue/open-jobs.ts'
import { createRolloutStore, rolloutTables } from '../../../cloud-bridge/rollout/rollout-store.ts'
import { createRollouts } from '../../../cloud-bridge/rollout/rollouts.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { RolloutSubmission } from '../../../core/wire/protocol/http/rollouts.ts'
import type { ToJobDevice } from '../../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../../core/wire/protocol/messages.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const limits = { jobAttemptBytes: 4 * 2 ** 20, deviceJobBytesPerDay: 2 ** 30 }
const jobsKept = { keepDays: 2, keepDeadDays: 5, keepCount: 1_000, keepBytes: 1e9 }
const ids = (count: number) => Array.from({ length: count }, (_, at) => `device-${at}`)

type Behaviour = 'succeeds' | 'fails' | 'hangs'

/** Devices that take every job and do as they are told; they outlive the bridge. */
function scriptedDevices(behaviourOf: (device: string) => Behaviour = () => 'succeeds') {
  const runs: { device: string; job: string }[] = []
  const canceled: string[] = []
  return {
    runs,
    canceled,
    /** What the bridge publishes. */
    onMessage(device: string, message: ToJobDevice, report: (event: object) => void) {
      const { bridge, job, attempt, type } = message
      if (type === 'cancel') return void canceled.push(device)
      runs.push({ device, job })
      const at = new Date(0).toISOString()
      const event = (n: number, fields: object) => report({ v: 1, bridge, job, attempt, n, at, ...fields })
      event(1, { type: 'accepted' })
      event(2, { type: 'running' })
      const behaviour = behaviourOf(device)
      if (behaviour === 'succeeds') event(3, { type: 'succeeded', result: { applied: [], kept: [] } })
      const error = { code: 'DISK_FULL', message: 'no space left' }
      if (behaviour === 'fails') event(3, { type: 'failed', failure: 'refused', error })
    },
  }
}
type ScriptedDevices = ReturnType<typeof scriptedDevices>

/**
 * A bridge's queue and rollouts on a state folder.
 * @param options `cutAt`: number of the write at which the power fails; `soakMs`: how long devices are watched after their success
 */
function openBridge(
  dir: TempDir,
  devices: ScriptedDevices,
  wall: { ms: number },
  { cutAt = Number.POSITIVE_INFINITY, soakMs = 0 } = {},
) {
  const clock = fakeClock()
  const wallMs = () => wall.ms
  const database = openDatabase(join(dir.path, 'bridge.sqlite'), [rolloutTables])
  let writes = 0
  /** Fails after a write, and at every later one. */
  const cut = <A extends unknown[], R>(write: (...args: A) => R) => {
    return (...args: A): R => {
      if (writes >= cutAt) throw new Error('power cut')
      const result = write(...args)
      if (++writes >= cutAt) throw new Error('power cut')
      return result
    }
  }
  const presence = new PresenceFeed(silentLogger())
  const {
    store: jobs,
    queue,
    close,
  } = openJobs(
    { stateDir: dir.path, limits, jobs: jobsKept },
    {
      bridge: 'bridge-1',
      presence,
      clock,
      publish(device, leaf, message) {
        if (leaf !== 'jobs') return
        const report = (event: object) => queue.onJobEvent(device, Buffer.from(JSON.stringify(event)))
        devices.onMessage(device, JSON.parse(message) as ToJobDevice, report)
      },
      onUnreadable: () => {},
      logger: silentLogger(),
    },
    () => ({ wallMs: wall.ms, upMs: wall.ms, boot: '' }),
  )
  const known = new Set(ids(100))
  const seen = new Map<string, Pick<DeviceState, 'state' | 'birth'>>()
  const decided: string[] = []
  const disk = { isFull: false }
  const store = createRolloutStore(database)
  const transaction: typeof store.transaction = (work) => {
    if (disk.isFull) throw new Error('database or disk is full')
    return store.transaction(work)
  }
  const rollouts = createRollouts({
    store: { ...store, transaction: cut(transaction) as typeof store.transaction },
    jobs,
    queue: { ...queue, submit: cut(queue.submit), cancel: cut(queue.cancel) },
    isKnown: (device) => known.has(device),
    presence,
    lastState: (device) => seen.get(device),
    soakMs,
    onDecided: ({ state }) => decided.push(state),
    wallMs,
    clock,
    logger: silentLogger(),
  })
  queue.start()
  rollouts.start()
  return {
    rollouts,
    jobs,
    known,
    decided,
    disk,
    queue,
    get writes() {
      return writes
    },
    /** A device publishes a state, or is lost. */
    see(device: string, state: DeviceState['state'], birth: number) {
      seen.set(device, { state, birth })
      presence.publish({
        kind: 'state',
        device,
        state: { v: 1, state, birth, at: new Date(0).toISOString(), jobs: ['config.apply'] },
      })
    },
    connect(names: readonly string[]) {
      for (const device of names)
        presence.publish({
          kind: 'state',
          device,
          state: { v: 1, state: 'ready', birth: 1, at: new Date(0).toISOString(), jobs: ['config.apply'] },
        })
    },
    async pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 500) {
        wall.ms += 500
        await clock.advance(500)
        for (let turn = 0; turn < 8; turn++) await new Promise((done) => setImmediate(done))
      }
    },
    async close() {
      await rollouts.close()
      await close()
      database.close()
    },
  }
}

const submissionOf = (pace: object) =>
  RolloutSubmission.parse({ kind: 'config.apply', input: { settings: {} }, selector: { all: true }, pace })

describe('a rollout on the queue', () => {
  it('starts its devices at its rate and completes; the result is the sum of its devices', async () => {
    using dir = tempDir()
    const devices = scriptedDevices((device) => (device === 'device-3' ? 'fails' : 'succeeds'))
    const bridge = openBridge(dir, devices, { ms: 1e12 })
    bridge.connect(ids(12))
    const { id } = bridge.rollouts.create(submissionOf({ first: 0, ratePerMinute: 20, growth: 1, abortAfter: 5 }), ids(12), 'ada')
    await bridge.pass(1_000)
    expect(devices.runs.length).toBe(2)
    expect(bridge.rollouts.find(id)?.devices).toMatchObject({ waiting: 10, succeeded: 2 })
    await bridge.pass(40_000)
    const rollout = bridge.rollouts.find(id)!
    expect(rollout).toMatchObject({ state: 'completed', reason: null, devices: { total: 12, succeeded: 11, failed: 1 } })
    expect(rollout.endedAt).not.toBeNull()
    const error = { code: 'DISK_FULL', message: 'no space left' }
    expect(bridge.rollouts.failures(id, 10)).toMatchObject([{ device: 'device-3', state: 'failed', error }])
    expect(bridge.rollouts.devices(id, 10, undefined, 10).map(({ device }) => device)).toEqual(['device-10', 'device-11'])
    expect(bridge.decided).toEqual(['completed'])
    await bridge.close()
  })

  it('is aborted by failures: what runs is canceled, the others never start', async () => {
    using dir = tempDir()
    const devices = scriptedDevices((device) => (device === 'device-0' ? 'hangs' : 'fails'))
    const bridge = openBridge(dir, devices, { ms: 1e12 })
    bridge.connect(ids(20))
    const { id } = bridge.rollouts.create(
      submissionOf({ first: 0, ratePerMinute: 60, growth: 1, abortAbovePercent: 50, abortAfter: 3 }),
      ids(20),
      'ada',
    )
    await bridge.pass(20_000)
    const { state, reason, devices: counts } = bridge.rollouts.find(id)!
    expect({ state, reason }).toEqual({ state: 'aborted', reason: expect.stringContaining('more than 50 %') })
    expect(counts).toMatchObject({ waiting: 0, started: 0, canceled: 1 })
    expect(counts.failed + counts.skipped + counts.canceled).toBe(20)
    expect(counts.skipped).toBe(14)
    expect(devices.canceled).toEqual(['device-0'])
    expect(bridge.decided).toEqual(['aborted'])
    // Nothing more is stored, and another rollout may begin.
    expect(bridge.rollouts.command(id, 'resume', 'ada')?.changed).toBe(false)
    expect(bridge.rollouts.create(submissionOf({}), ids(20), 'ada').state).toBe('running')
    await bridge.close()
  })

  it('whose record is damaged is aborted at the next start, and others go on', async () => {
    using dir = tempDir()
    const before = openBridge(dir, scriptedDevices(), { ms: 1e12 })
    const [damaged, other] = [0, 1].map(
      (at) => before.rollouts.create(submissionOf({}), ids(4).slice(2 * at, 2 * at + 2), 'ada').id,
    )
    await before.close()
    const database = openDatabase(join(dir.path, 'bridge.sqlite'), [rolloutTables])
    database.prepare("UPDATE rollouts SET pace = '{' WHERE id = ?").run(damaged)
    database.close()
    const bridge = openBridge(dir, scriptedDevices(), { ms: 1e12 })
    bridge.connect(ids(4))
    await bridge.pass(90_000)
    expect(bridge.rollouts.list(10)).toMatchObject([
      { id: other, state: 'completed' },
      { id: damaged, state: 'aborted', reason: expect.stringContaining('damaged') },
    ])
    expect(bridge.rollouts.create(submissionOf({}), ids(2), 'ada').state).toBe('running')
    await bridge.close()
  })

  it('waits for an operator after the first group, and skips devices that are gone', async () => {
    using dir = tempDir()
    const devices = scriptedDevices()
    const bridge = openBridge(dir, devices, { ms: 1e12 })
    bridge.connect(ids(6))
    const { id } = bridge.rollouts.create(submissionOf({ first: 2, pauseAfterFirst: true, ratePerMinute: 60 }), ids(6), 'ada')
    await bridge.pass(30_000)
    expect(bridge.rollouts.find(id)).toMatchObject({ state: 'paused', devices: { succeeded: 2, waiting: 4 } })
    bridge.known.delete('device-4')
    expect(bridge.rollouts.command(id, 'resume', 'ada')).toMatchObject({ changed: true, rollout: { state: 'running' } })
    await bridge.pass(30_000)
    expect(bridge.rollouts.find(id)).toMatchObject({ state: 'completed', devices: { succeeded: 5, skipped: 1 } })
    // What an operator decides is in the audit log by the request.
    expect(bridge.decided).toEqual(['paused', 'completed'])
    await bridge.close()
  })

  it('counts what it could not store, once it can', async () => {
    using dir = tempDir()
    const bridge = openBridge(dir, scriptedDevices(), { ms: 1e12 })
    const { id } = bridge.rollouts.create(submissionOf({}), ids(1), 'ada')
    bridge.disk.isFull = true
    bridge.connect(ids(1))
    await bridge.pass(3_000)
    expect(bridge.rollouts.find(id)?.devices).toMatchObject({ started: 1, succeeded: 0 })
    bridge.disk.isFull = false
    await bridge.pass(1_000)
    expect(bridge.rollouts.find(id)).toMatchObject({ state: 'completed', devices: { succeeded: 1 } })
    await bridge.close()
  })

  it('a device takes part in one rollout of a kind at a time', async () => {
    using dir = tempDir()
    const bridge = openBridge(
      dir,
      scriptedDevices(() => 'hangs'),
      { ms: 1e12 },
    )
    const { id } = bridge.rollouts.create(submissionOf({}), ids(3), 'ada')
    expect(() => bridge.rollouts.create(submissionOf({}), ['device-2'], 'ada')).toThrow(`rollout ${id}`)
    await bridge.close()
  })

  it('a paused rollout leaves the devices that it has not started to a newer one, and skips them then', async () => {
    using dir = tempDir()
    const bridge = openBridge(
      dir,
      scriptedDevices((device) => (device === 'device-0' ? 'fails' : 'succeeds')),
      { ms: 1e12 },
    )
    bridge.connect(ids(4))
    const { id } = bridge.rollouts.create(submissionOf({ first: 1, ratePerMinute: 60 }), ids(4), 'ada')
    expect(() => bridge.rollouts.create(submissionOf({}), ['device-3'], 'ada')).toThrow(`rollout ${id}`)
    await bridge.pass(3_000)
    expect(bridge.rollouts.find(id)?.state).toBe('paused')
    const newer = bridge.rollouts.create(submissionOf({ first: 0, ratePerMinute: 60 }), ['device-1', 'device-2'], 'ada')
    await bridge.pass(10_000)
    expect(bridge.rollouts.find(newer.id)).toMatchObject({ state: 'completed', devices: { succeeded: 2 } })
    bridge.rollouts.command(id, 'resume', 'ada')
    await bridge.pass(10_000)
    expect(bridge.rollouts.devices(id, 0, undefined, 4)).toMatchObject([
      { state: 'failed' },
      { state: 'skipped', error: { message: `rollout ${newer.id}, which is newer, has the device` } },
      { state: 'skipped' },
      { state: 'succeeded' },
    ])
    await bridge.close()
  })

  it('a device that never returns fails at its time limit, not before', async () => {
    using dir = tempDir()
    const bridge = openBridge(dir, scriptedDevices(), { ms: 1e12 })
    const { id } = bridge.rollouts.create(submissionOf({ first: 0, deviceTimeoutS: 60 }), ['device-0'], 'ada')
    await bridge.pass(50_000)
    expect(bridge.rollouts.find(id)?.devices.started).toBe(1)
    await bridge.pass(15_000)
    expect(bridge.rollouts.devices(id, 0, undefined, 1)).toMatchObject([{ state: 'failed', error: { code: 'TIMED_OUT' } }])
    await bridge.close()
  })
})

describe('a rollout whose devices are watched after their success', () => {
  const pace = { first: 1, ratePerMinute: 60, growth: 1 }
  const watched = { soakMs: 60_000 }

  it('waits with the others until the first has stayed healthy, and with its end until all have', async () => {
    using dir = tempDir()
    const bridge = openBridge(dir, scriptedDevices(), { ms: 1e12 }, watched)
    bridge.connect(ids(3))
    const { id } = bridge.rollouts.create(submissionOf(pace), ids(3), 'ada')
    await bridge.pass(50_000)
    expect(bridge.rollouts.find(id)?.devices).toMatchObject({ succeeded: 1, soaking: 1, waiting: 2 })
    await bridge.pass(20_000)
    expect(bridge.rollouts.find(id)).toMatchObject({ state: 'running', devices: { succeeded: 3, soaking: 2 } })
    await bridge.pass(60_000)
    expect(bridge.rollouts.find(id)).toMatchObject({ state: 'completed', devices: { succeeded: 3, soaking: 0 } })
    await bridge.close()
  })

  it('counts a device as failed that dies again, and starts no others', async () => {
    using dir = tempDir()
    const bridge = openBridge(dir, scriptedDevices(), { ms: 1e12 }, watched)
    bridge.connect(ids(3))
    bridge.see('device-0', 'ready', 7)
    const { id } = bridge.rollouts.create(submissionOf(pace), ids(3), 'ada')
    await bridge.pass(3_000)
    bridge.see('device-0', 'lost', 7)
    expect(bridge.rollouts.find(id)?.devices).toMatchObject({ succeeded: 1 })
    bridge.see('device-0', 'ready', 8)
    expect(bridge.rollouts.find(id)).toMatchObject({ state: 'paused', devices: { succeeded: 0, failed: 1, waiting: 2 } })
    expect(bridge.rollouts.failures(id, 1)).toMatchObject([{ error: { code: 'HEALTH_CHECK_FAILED' } }])
    await bridge.close()
  })

  it('watches them after a restart of the bridge, too', async () => {
    using dir = tempDir()
    const [devices, wall] = [scriptedDevices(), { ms: 1e12 }]
    const before = openBridge(dir, devices, wall, watched)
    before.connect(ids(2))
    const { id } = before.rollouts.create(submissionOf({ ...pace, first: 2 }), ids(2), 'ada')
    await before.pass(5_000)
    expect(before.rollouts.find(id)?.devices).toMatchObject({ succeeded: 2, soaking: 2 })
    await before.close()
    const after = openBridge(dir, devices, wall, watched)
    after.see('device-1', 'lost', 7)
    await after.pass(50_000)
    expect(after.rollouts.find(id)?.devices).toMatchObject({ succeeded: 2, soaking: 2 })
    await after.pass(15_000)
    expect(after.rollouts.find(id)).toMatchObject({ state: 'completed', devices: { succeeded: 1, failed: 1, soaking: 0 } })
    await after.close()
    // The watch of a rollout that was off for longer is over.
    const third = openBridge(dir, devices, wall, watched)
    third.connect(ids(1))
    const other = third.rollouts.create(submissionOf(pace), ids(1), 'ada')
    await third.pass(3_000)
    await third.close()
    wall.ms += 120_000
    const fourth = openBridge(dir, devices, wall, watched)
    await fourth.pass(2_000)
    expect(fourth.rollouts.find(other.id)?.state).toBe('completed')
    await fourth.close()
  })
})

it('a bridge that is killed at any write goes on after its restart, and submits no job twice', async () => {
  const course = async (cutAt: number) => {
    using dir = tempDir()
    const wall = { ms: 1e12 }
    const devices = scriptedDevices((device) => (device === 'device-3' ? 'hangs' : 'succeeds'))
    const first = openBridge(dir, devices, wall, { cutAt })
    first.connect(ids(4))
    const submission = submissionOf({ first: 1, ratePerMinute: 60, growth: 1 })
    try {
      first.rollouts.create(submission, ids(4), 'ada')
    } catch {
      // The operator repeats what got no response.
    }
    const act = async ({ rollouts, pass }: typeof first) => {
      const rollout = rollouts.list(1)[0] ?? rollouts.create(submission, ids(4), 'ada')
      await pass(3_000)
      rollouts.command(rollout.id, 'abort', 'ada')
      await pass(500)
      return rollout.id
    }
    await act(first).catch(() => {})
    const { writes } = first
    await first.close()
    const second = openBridge(dir, devices, wall)
    second.connect(ids(4))
    const id = await act(second)
    const jobs = new Map<string, Set<string>>()
    for (const { device, job } of devices.runs) jobs.set(device, (jobs.get(device) ?? new Set()).add(job))
    const states = second.rollouts.devices(id, 0, undefined, 10).map(({ state }) => state)
    const found = second.rollouts.find(id)
    const open = second.jobs.counts()
    await second.close()
    expect([...jobs].filter(([, of]) => of.size > 1)).toEqual([])
    expect(states).toEqual(['succeeded', 'succeeded', 'succeeded', 'canceled'])
    expect(found).toMatchObject({ state: 'aborted', devices: { started: 0, succeeded: 3, canceled: 1 } })
    expect(open).toMatchObject({ queued: 0, underWay: 0 })
    return writes
  }
  const writes = await course(Number.POSITIVE_INFINITY)
  expect(writes).toBeGreaterThan(10)
  for (let cutAt = 1; cutAt <= writes; cutAt++) await course(cutAt)
})
