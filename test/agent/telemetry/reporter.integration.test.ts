import { getEventListeners } from 'node:events'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { measurementsOf } from '../../../agent/telemetry/measurements.ts'
import { Reporter, type ReporterOptions } from '../../../agent/telemetry/reporter.ts'
import { Spool, spoolTables } from '../../../agent/telemetry/spool.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { LinkRates } from '../../../core/policy/estimate/link-rates.ts'
import type { LogLine, TelemetrySample } from '../../../core/wire/protocol/http/devices.ts'
import { DeviceTelemetry } from '../../../core/wire/protocol/messages.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { shared } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** A reporter with three spooled messages, a link without bridges and a scripted device. */
function reporting(path: string, options: Partial<ReporterOptions> = {}, isAcknowledged = Promise.resolve(true)) {
  const store = openDatabase(join(path, 'spool.sqlite'), [spoolTables], 'NORMAL')
  const clock = fakeClock()
  const wall = () => ({ ms: Date.UTC(2026, 5, 1), isSet: true })
  const limits = { maxBytes: 2 ** 20, maxAgeMs: 1e9 }
  const spool = new Spool({ store, birth: 1, limits, clock, wall, logger: silentLogger() })
  for (const x of ['a', 'b', 'c']) spool.put('telemetry', { x })
  const replayed: string[] = []
  const world = {
    isAcknowledged,
    hasBridge: true,
    draftStepMs: 1,
    samples: 0,
    reports: [] as DeviceTelemetry[],
  }
  const link = {
    connected: true,
    figures: { bridge: 'bridge-1', rates: new LinkRates() },
    /** A bridge that needs complete samples. */
    deltaReceivers: undefined as string | undefined,
    async report(message: string) {
      world.reports.push(DeviceTelemetry.parse(JSON.parse(message)))
      return true
    },
  }
  const reporter = new Reporter({
    links: [link],
    hasBridge: () => world.hasBridge,
    replay(_leaf, message) {
      replayed.push(JSON.parse(message).x)
      return world.isAcknowledged
    },
    spool,
    sample: async () => void world.samples++,
    measure: (figures) =>
      measurementsOf(figures, { prefillTokensPerS: undefined, draftStepS: world.draftStepMs / 1_000 }, undefined),
    everyMs: 0,
    deadBands: {},
    birth: 7,
    clock,
    ...options,
  })
  reporter.start()
  return { clock, store, spool, replayed, world, link, reporter, [Symbol.dispose]: () => store.close() }
}

describe('the replay of the spool', () => {
  it('sends the oldest message first, at most ten a second, and deletes it', async () => {
    using dir = tempDir()
    using at = reporting(dir.path)
    await expect.poll(() => at.replayed).toEqual(['a'])
    await at.clock.advance(99)
    expect(at.replayed).toEqual(['a'])
    await at.clock.advance(1)
    await expect.poll(() => at.replayed).toEqual(['a', 'b'])
    await at.clock.advance(100)
    await expect.poll(() => [at.replayed, at.spool.figures.waiting]).toEqual([['a', 'b', 'c'], 0])
    await at.reporter.close()
  })

  it('leaves no listeners on the signal that lasts as long as the agent', async () => {
    using dir = tempDir()
    const signals: AbortSignal[] = []
    using at = reporting(dir.path, { everyMs: 10_000, sample: async (signal) => void signals.push(signal) })
    await expect.poll(() => at.replayed).toEqual(['a'])
    await at.clock.advance(100)
    await expect.poll(() => at.replayed).toEqual(['a', 'b'])
    await at.clock.advance(100)
    await expect.poll(() => [at.replayed, at.spool.figures.waiting]).toEqual([['a', 'b', 'c'], 0])
    expect(getEventListeners(signals[0]!, 'abort')).toEqual([])
    await at.reporter.close()
  })

  it('waits for a bridge', async () => {
    using dir = tempDir()
    using at = reporting(dir.path)
    at.world.hasBridge = false
    await at.clock.advance(5_000)
    // The first message was sent at the start.
    expect(at.replayed).toEqual(['a'])
    at.world.hasBridge = true
    await at.clock.advance(1_000)
    expect(at.replayed.slice(0, 2)).toEqual(['a', 'b'])
    await at.reporter.close()
  })

  it('sends a message again that the broker has not acknowledged', async () => {
    using dir = tempDir()
    using at = reporting(dir.path, {}, Promise.resolve(false))
    await expect.poll(() => at.replayed).toEqual(['a'])
    at.world.isAcknowledged = Promise.resolve(true)
    await expect
      .poll(async () => {
        await at.clock.advance(1_000)
        return at.replayed
      })
      .toEqual(['a', 'a', 'b', 'c'])
    await at.reporter.close()
  })

  it('sends a message once although the disk is too full to delete it', async () => {
    using dir = tempDir()
    using at = reporting(dir.path)
    // As on a full disk: reading works, deleting fails.
    at.store.exec("CREATE TRIGGER full BEFORE DELETE ON spool BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
    for (let s = 0; s < 10; s++) await at.clock.advance(1_000)
    expect([at.replayed, at.spool.figures.waiting]).toEqual([['a'], 3])
    at.store.exec('DROP TRIGGER full')
    await expect
      .poll(async () => {
        await at.clock.advance(1_000)
        return [at.replayed, at.spool.figures.waiting]
      })
      .toEqual([['a', 'b', 'c'], 0])
    await at.reporter.close()
  })

  it('does not delay the close when the broker does not respond', async () => {
    using dir = tempDir()
    using at = reporting(dir.path, {}, new Promise(() => {}))
    await expect.poll(() => at.replayed).toEqual(['a'])
    await at.reporter.close()
    expect(at.spool.figures.waiting).toBe(3)
  })
})

describe('the reporting loop', () => {
  it('samples at the interval, and reports after it or when a figure has moved', async () => {
    using dir = tempDir()
    using at = reporting(dir.path, { everyMs: 10_000 })
    await at.clock.advance(1_000)
    expect([at.world.samples, at.world.reports.length]).toEqual([1, 1])
    expect(at.world.reports[0]).toMatchObject({ birth: 7, link: { bridge: 'bridge-1' }, speed: { draftStepMs: 1 } })
    await at.clock.advance(5_000)
    expect(at.world.reports.length).toBe(1)
    at.world.draftStepMs = 2
    await at.clock.advance(1_000)
    expect(at.world.reports.map(({ speed }) => speed.draftStepMs)).toEqual([1, 2])
    await at.clock.advance(10_000)
    expect([at.world.samples, at.world.reports.length]).toEqual([2, 3])
    await at.reporter.close()
  })

  it('reports to a link as soon as it connects', async () => {
    using dir = tempDir()
    using at = reporting(dir.path, { everyMs: 10_000 })
    at.link.connected = false
    await at.clock.advance(5_000)
    expect(at.world.reports).toEqual([])
    at.link.connected = true
    await at.clock.advance(1_000)
    expect(at.world.reports.length).toBe(1)
    await at.reporter.close()
  })

  it('spools measurements while there is no bridge, without the figures of a link and without unknown ones', async () => {
    using dir = tempDir()
    using at = reporting(dir.path, { everyMs: 10_000, replay: async () => false })
    at.world.hasBridge = false
    await at.clock.advance(11_000)
    const spooled = at.store.prepare<[], string>('SELECT body FROM spool ORDER BY n').pluck().all()
    expect(spooled.slice(3).map((body) => JSON.parse(body))).toEqual(
      [1, 1].map((draftStepMs) => ({ link: null, speed: { draftStepMs } })),
    )
    await at.reporter.close()
  })

  it('continues when the clock is set back', async () => {
    using dir = tempDir()
    const fake = fakeClock()
    let offsetMs = 0
    const clock = { nowMs: () => fake.nowMs() + offsetMs, sleep: fake.sleep }
    using at = reporting(dir.path, { everyMs: 10_000, clock })
    await fake.advance(1_000)
    expect([at.world.samples, at.world.reports.length]).toEqual([1, 1])
    offsetMs = -86_400_000
    at.world.draftStepMs = 2
    at.spool.put('telemetry', { x: 'd' })
    await fake.advance(11_500)
    expect(at.world.reports.map(({ speed }) => speed.draftStepMs).slice(0, 2)).toEqual([1, 2])
    expect([at.world.samples, at.replayed]).toEqual([2, ['a', 'b', 'c', 'd']])
    await at.reporter.close()
  })

  it('only replays if reports are turned off', async () => {
    using dir = tempDir()
    using at = reporting(dir.path, { everyMs: 0 })
    await at.clock.advance(60_000)
    expect([at.world.samples, at.world.reports.length, at.replayed]).toEqual([0, 0, ['a', 'b', 'c']])
    await at.reporter.close()
  })
})

describe('an agent whose broker is unreachable', () => {
  const world = shared(startAgentWorld)

  it('retains its measurements when it is killed, and replays them with their times', async () => {
    const { bridge, bundle, dir } = world
    await using relay = await startRelay(1)
    const stateDir = join(dir, 'field')
    const run = ['agent', 'run', '--bundle', bundle, '--id', 'field', '--state-dir', stateDir, '--api-port', '0']
    const start = () => startBrim([...run, '--bridge', through(relay, bridge.mqttUrl), '--telemetry', '1'], { env: {} })
    const spooled = (birth: number) => {
      const store = new Database(join(stateDir, 'spool.sqlite'), { readonly: true, fileMustExist: true })
      const at = store
        .prepare<[number], number>("SELECT wall_ms FROM spool WHERE birth = ? AND leaf = 'telemetry' ORDER BY n")
        .pluck()
        .all(birth)
      store.close()
      return at.map((ms) => new Date(ms).toISOString())
    }
    const samples = async (query = '') => {
      const answer = await fetch(`${bridge.httpUrl}/v1/devices/field/telemetry${query}`)
      // The bridge does not know the device yet.
      if (answer.status === 404) return []
      return ((await answer.json()) as { samples: TelemetrySample[] }).samples
    }
    const first = await start()
    await expect.poll(() => spooled(1).length).toBeGreaterThan(1)
    process.kill(first.pid, 'SIGKILL')
    await first.stop()
    const before = spooled(1)
    const second = await start()
    await expect.poll(() => spooled(2).length).toBeGreaterThan(0)
    expect((await fetch(`${bridge.httpUrl}/v1/devices/field/telemetry`)).status).toBe(404)

    relay.target = portOf(bridge.mqttUrl)
    // A request ends the back-off.
    const ask = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model":"brim","prompt":"a"}' }
    await (await fetch(`${second.ready.apiUrl}/v1/completions`, ask)).text()
    const live = ({ replayed }: TelemetrySample) => replayed === undefined
    await expect
      .poll(async () => (await samples()).at(-1))
      .toMatchObject({ birth: 2, spool: { waiting: 0, dropped: { full: 0, old: 0, unstored: 0 } } })
    const all = await samples()
    expect(all.filter(({ birth }) => birth === 1).map(({ at, replayed }) => [at, replayed])).toEqual(
      before.map((at) => [at, true]),
    )
    expect(all.filter((one) => one.birth === 2 && !live(one)).length).toBeGreaterThan(0)
    expect((await samples(`?since=${before[0]}`)).length).toBeLessThan((await samples()).length)
    const log = async () => ((await (await fetch(`${bridge.httpUrl}/v1/devices/field/log`)).json()) as { lines: LogLine[] }).lines
    await expect.poll(log).toContainEqual(expect.objectContaining({ birth: 1, level: 'warn', component: 'link', replayed: true }))
    const { devices } = (await (await fetch(`${bridge.httpUrl}/v1/devices`)).json()) as { devices: { id: string }[] }
    expect(devices.find(({ id }) => id === 'field')).toMatchObject({ state: 'ready', telemetry: { birth: 2, clockIsSet: true } })
    await second.stop()
  })
})
