import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startReplay } from '../../../agent/telemetry/replay.ts'
import { Spool, spoolTables } from '../../../agent/telemetry/spool.ts'
import type { LogLine } from '../../../cloud-bridge/fleet/device-logs.ts'
import type { StoredSample } from '../../../cloud-bridge/fleet/history.ts'
import { openDatabase } from '../../../core/store/open-database.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { type AgentWorld, startAgentWorld } from '../../support/agent-world.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

describe('what waits in the spool', () => {
  const links = () => {
    const said: string[] = []
    return {
      said,
      hasBridge: true,
      answer: Promise.resolve(true),
      publish(_leaf: string, message: string): Promise<boolean> {
        said.push(JSON.parse(message).x)
        return this.answer
      },
    }
  }
  const filled = (path: string) => {
    const store = openDatabase(join(path, 'spool.sqlite'), [spoolTables], 'NORMAL')
    const clock = fakeClock()
    const wall = () => ({ ms: Date.UTC(2026, 5, 1), isSet: true })
    const limits = { maxBytes: 2 ** 20, maxAgeMs: 1e9 }
    const spool = new Spool({ store, birth: 1, limits, clock, wall, logger: silentLogger() })
    for (const x of ['a', 'b', 'c']) spool.put('telemetry', { x })
    return { spool, store, clock, [Symbol.dispose]: () => store.close() }
  }

  it('is said one after the other, no more than ten a second, and is gone then', async () => {
    using dir = tempDir()
    using world = filled(dir.path)
    const to = links()
    const replay = startReplay({ spool: world.spool, links: to, clock: world.clock })
    await expect.poll(() => to.said).toEqual(['a'])
    await world.clock.advance(99)
    expect(to.said).toEqual(['a'])
    await world.clock.advance(1)
    await expect.poll(() => to.said).toEqual(['a', 'b'])
    await world.clock.advance(100)
    await expect.poll(() => [to.said, world.spool.figures.waiting]).toEqual([['a', 'b', 'c'], 0])
    await replay.close()
  })

  it('is said again where the broker did not take it', async () => {
    using dir = tempDir()
    using world = filled(dir.path)
    const to = links()
    to.answer = Promise.resolve(false)
    const replay = startReplay({ spool: world.spool, links: to, clock: world.clock })
    await expect.poll(() => to.said).toEqual(['a'])
    to.answer = Promise.resolve(true)
    await expect
      .poll(async () => {
        await world.clock.advance(1_000)
        return to.said
      })
      .toEqual(['a', 'a', 'b', 'c'])
    await replay.close()
  })

  it('is said once where the disk is too full to forget it', async () => {
    using dir = tempDir()
    using world = filled(dir.path)
    const to = links()
    // What a full disk does: it can be read, and nothing in it changed.
    world.store.exec("CREATE TRIGGER full BEFORE DELETE ON spool BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
    const replay = startReplay({ spool: world.spool, links: to, clock: world.clock })
    for (let s = 0; s < 10; s++) await world.clock.advance(1_000)
    expect([to.said, world.spool.figures.waiting]).toEqual([['a'], 3])
    world.store.exec('DROP TRIGGER full')
    await expect
      .poll(async () => {
        await world.clock.advance(1_000)
        return [to.said, world.spool.figures.waiting]
      })
      .toEqual([['a', 'b', 'c'], 0])
    await replay.close()
  })

  it('does not keep an agent that stops, though the broker hangs', async () => {
    using dir = tempDir()
    using world = filled(dir.path)
    const to = links()
    to.answer = new Promise(() => {})
    const replay = startReplay({ spool: world.spool, links: to, clock: world.clock })
    await expect.poll(() => to.said).toEqual(['a'])
    await replay.close()
    expect(world.spool.figures.waiting).toBe(3)
  })
})

describe('an agent whose broker is away', () => {
  let world: AgentWorld
  beforeAll(async () => {
    world = await startAgentWorld()
  })
  afterAll(() => world[Symbol.asyncDispose]())

  it('keeps what it measures, though it is killed, and tells it with its times when the broker is back', async () => {
    const { bridge, bundle, dir } = world
    await using relay = await startRelay(1)
    const stateDir = join(dir, 'field')
    const run = ['agent', 'run', '--bundle', bundle, '--id', 'field', '--state-dir', stateDir, '--api-port', '0']
    const start = () => startBrim([...run, '--bridge', through(relay, bridge.mqttUrl), '--telemetry', '1'], { env: {} })
    const kept = (birth: number) => {
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
      // The bridge has never heard of the device yet.
      if (answer.status === 404) return []
      return ((await answer.json()) as { samples: StoredSample[] }).samples
    }
    const first = await start()
    await expect.poll(() => kept(1).length, { timeout: 15_000 }).toBeGreaterThan(1)
    process.kill(first.pid, 'SIGKILL')
    await first.stop()
    const before = kept(1)
    const second = await start()
    await expect.poll(() => kept(2).length, { timeout: 15_000 }).toBeGreaterThan(0)
    expect((await fetch(`${bridge.httpUrl}/v1/devices/field/telemetry`)).status).toBe(404)

    relay.target = portOf(bridge.mqttUrl)
    // Somebody who asks cuts the back-off short.
    const ask = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model":"brim","prompt":"a"}' }
    await (await fetch(`${second.ready.apiUrl}/v1/completions`, ask)).text()
    const live = ({ replayed }: StoredSample) => replayed === undefined
    await expect
      .poll(async () => (await samples()).at(-1), { timeout: 15_000 })
      .toMatchObject({ birth: 2, spool: { waiting: 0, dropped: { full: 0, old: 0, unstored: 0 } } })
    const all = await samples()
    expect(all.filter(({ birth }) => birth === 1).map(({ at, replayed }) => [at, replayed])).toEqual(
      before.map((at) => [at, true]),
    )
    expect(all.filter((one) => one.birth === 2 && !live(one)).length).toBeGreaterThan(0)
    expect((await samples(`?since=${before[0]}`)).length).toBeLessThan((await samples()).length)
    const { lines } = (await (await fetch(`${bridge.httpUrl}/v1/devices/field/log`)).json()) as { lines: LogLine[] }
    expect(lines).toContainEqual(expect.objectContaining({ birth: 1, level: 'warn', component: 'link', replayed: true }))
    const { devices } = (await (await fetch(`${bridge.httpUrl}/v1/devices`)).json()) as { devices: { id: string }[] }
    expect(devices.find(({ id }) => id === 'field')).toMatchObject({ state: 'ready', telemetry: { birth: 2, clockIsSet: true } })
    await second.stop()
  })
})
