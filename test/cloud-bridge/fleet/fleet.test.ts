import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createRegistry, devicesTable } from '../../../cloud-bridge/fleet/registry.ts'
import { type Clock, systemClock } from '../../../core/base/clock.ts'
import type { DeviceState, DeviceTelemetry } from '../../../core/protocol/messages.ts'
import { openDatabase, type Store } from '../../../core/store/open-database.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const at = '2026-01-02T03:04:05.678Z'
const said = (state: DeviceState['state'], birth: number, more: object = {}) =>
  Buffer.from(JSON.stringify({ v: 1, state, birth, at, ...more }))

const unheard = () => {}

describe('the registry', () => {
  const open = (path: string, clock: Clock = systemClock) => {
    const store = openDatabase(join(path, 'brim.sqlite'), [devicesTable])
    const registry = createRegistry(store, clock, silentLogger(), unheard)
    return {
      registry,
      close: () => store.close(),
      line: () => registry.devices().map(({ id, state, birth }) => [id, state, birth]),
    }
  }

  it('follows a device through its births, and is not fooled by a late will', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.onState('jetson-01', said('ready', 4, { agent: '0.1.0', modelId: 'ab'.repeat(32) }))
    registry.onState('jetson-01', said('lost', 4))
    expect(line()).toEqual([['jetson-01', 'lost', 4]])
    registry.onState('jetson-01', said('ready', 5))
    registry.onState('jetson-01', said('lost', 4))
    expect(line()).toEqual([['jetson-01', 'ready', 5]])
    expect(registry.devices()[0]).toMatchObject({ agent: '0.1.0', modelId: 'ab'.repeat(32) })
    close()
  })

  it('knows a device again that was installed anew and counts its births from 1', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.onState('jetson-01', said('ready', 57))
    registry.onState('jetson-01', said('lost', 57))
    registry.onState('jetson-01', said('ready', 1))
    expect(line()).toEqual([['jetson-01', 'ready', 1]])
    registry.onState('jetson-01', said('disconnected', 1))
    expect(line()).toEqual([['jetson-01', 'disconnected', 1]])
    close()
  })

  it('outlives a database that cannot be written, and says so', () => {
    using dir = tempDir()
    const store = openDatabase(join(dir.path, 'brim.sqlite'), [devicesTable])
    const { logger, lines } = recordingLogger('error')
    const registry = createRegistry(store, systemClock, logger, unheard)
    // As far as SQLite is concerned, a full or read-only disk.
    store.pragma('query_only = ON')
    registry.onState('jetson-01', said('ready', 1))
    expect(lines).toMatchObject([{ msg: 'device state not stored', device: 'jetson-01' }])
    // A heartbeat that could not be written down is still news when it comes again.
    expect(registry.onState('jetson-01', said('ready', 1))).toBeDefined()
    store.pragma('query_only = OFF')
    expect(registry.onState('jetson-01', said('ready', 1))).toBeDefined()
    expect(registry.devices()).toMatchObject([{ id: 'jetson-01', state: 'ready' }])
    store.close()
  })

  it('ignores what is no state, and an emptied topic', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.onState('jetson-01', said('ready', 1))
    for (const bad of ['', '{', '[]', '{"v":1}', '{"v":2,"state":"lost","birth":9,"at":"2026-01-02T03:04:05Z"}'])
      registry.onState('jetson-01', Buffer.from(bad))
    registry.onState('jetson-01', Buffer.from([0xff, 0xfe, 0x00]))
    expect(line()).toEqual([['jetson-01', 'ready', 1]])
    close()
  })

  it('knows its devices after a restart, but calls nobody present until heard of', () => {
    using dir = tempDir()
    const before = open(dir.path)
    before.registry.onState('a', said('ready', 2))
    before.registry.onState('b', said('disconnected', 7))
    before.close()
    const { registry, line, close } = open(dir.path)
    registry.markAllLost()
    expect(line()).toEqual([
      ['a', 'lost', 2],
      ['b', 'disconnected', 7],
    ])
    registry.onState('a', said('ready', 2))
    expect(line()[0]).toEqual(['a', 'ready', 2])
    close()
  })
})

describe('heartbeats', () => {
  const beats = { heartbeatS: 30, connection: 1 }
  const open = (path: string) => {
    const store = openDatabase(join(path, 'brim.sqlite'), [devicesTable])
    const clock = fakeClock()
    const { logger, lines } = recordingLogger('info')
    const registry = createRegistry(store, clock, logger, unheard)
    const only = () => registry.devices()[0]!
    return { registry, clock, lines, only, [Symbol.dispose]: () => store.close() }
  }

  it('are no news, and are not logged, but show when the device was heard of', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry, clock, lines, only } = world
    expect(registry.onState('a', said('ready', 1, beats))).toBeDefined()
    const { lastSeen } = only()
    for (let beat = 1; beat <= 3; beat++) {
      await clock.advance(30_000)
      const at = `2026-01-02T03:04:0${beat}.000Z`
      expect(registry.onState('a', said('ready', 1, { ...beats, at }))).toBeUndefined()
    }
    await expect
      .poll(() => {
        registry.onState('a', said('ready', 1, beats))
        return only().lastSeen
      })
      .not.toBe(lastSeen)
    expect(lines.map(({ msg }) => msg)).toEqual(['device state'])
  })

  it('are news where the device has connected again, or does other jobs', () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { onState: heard } = world.registry
    heard('a', said('ready', 1, beats))
    expect(heard('a', said('ready', 1, { ...beats, connection: 2 }))).toBeDefined()
    expect(heard('a', said('ready', 1, { ...beats, connection: 2, jobs: ['profile'] }))).toBeDefined()
    expect(heard('a', said('ready', 1, { ...beats, connection: 2, jobs: ['profile'] }))).toBeUndefined()
    // An older agent does not count: it may have.
    for (let time = 0; time < 2; time++) expect(heard('old', said('ready', 1))).toBeDefined()
  })

  it('that stop make a device lost without a will, once, and that come again make it ready', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry, clock, only } = world
    registry.onState('a', said('ready', 1, beats))
    registry.onState('silent by nature', said('ready', 1))
    await clock.advance(90_000)
    expect(registry.expireHeartbeats()).toEqual([])
    await clock.advance(1)
    expect(registry.expireHeartbeats()).toMatchObject([{ device: 'a', state: { state: 'lost', birth: 1 } }])
    expect(registry.expireHeartbeats()).toEqual([])
    expect(only().state).toBe('lost')
    expect(registry.onState('a', said('ready', 1, beats))).toBeDefined()
    expect(only().state).toBe('ready')
  })

  it('are not missed of those who could not be heard, or have left', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry, clock } = world
    registry.onState('a', said('ready', 1, beats))
    registry.onState('b', said('ready', 1, beats))
    registry.onState('b', said('disconnected', 1, beats))
    await clock.advance(600_000)
    registry.onBrokerLost()
    expect(registry.expireHeartbeats()).toEqual([])
    await clock.advance(90_001)
    expect(registry.expireHeartbeats().map(({ device }) => device)).toEqual(['a'])
  })

  it('are news once nobody could be heard: what was sent meanwhile is lost', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry } = world
    registry.onState('a', said('ready', 1, beats))
    expect(registry.onState('a', said('ready', 1, beats))).toBeUndefined()
    registry.onBrokerLost()
    expect(registry.onState('a', said('ready', 1, beats))).toBeDefined()
    expect(registry.onState('a', said('ready', 1, beats))).toBeUndefined()
  })
})

describe('the telemetry of devices', () => {
  const telemetry = (upBytesPerS: number | null): DeviceTelemetry => ({
    v: 1,
    at,
    birth: 4,
    link: { upBytesPerS, downBytesPerS: 2e6, rttMs: 1.5, bridge: 'bridge-1' },
    speed: { prefillTokensPerS: 900, draftStepMs: null },
  })
  const payload = (value: unknown) => Buffer.from(JSON.stringify(value))

  it('is listed with its age, the latest of each device', async () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), [devicesTable]))
    const clock = fakeClock()
    const registry = createRegistry(store.value, clock, silentLogger(), unheard)
    registry.onState('a', said('ready', 4))
    registry.onState('b', said('ready', 1))
    registry.onTelemetry('a', payload(telemetry(1e5)))
    await clock.advance(10_000)
    registry.onTelemetry('a', payload({ ...telemetry(null), battery: { level: 1 } }))
    await clock.advance(2_500)
    const { v: _, ...shown } = telemetry(null)
    expect(registry.devices().map(({ id, telemetry }) => [id, telemetry])).toEqual([
      ['a', { ageS: 2.5, ...shown }],
      ['b', null],
    ])
  })

  it('that is replayed is not taken for the latest', () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), [devicesTable]))
    const registry = createRegistry(store.value, systemClock, silentLogger(), unheard)
    registry.onState('a', said('ready', 4))
    expect(registry.onTelemetry('a', payload({ ...telemetry(7), replayed: true }))).toMatchObject({ replayed: true })
    expect(registry.devices()).toMatchObject([{ telemetry: null }])
    registry.onTelemetry('a', payload(telemetry(1e5)))
    registry.onTelemetry('a', payload({ ...telemetry(7), replayed: true }))
    expect(registry.devices()).toMatchObject([{ telemetry: { link: { upBytesPerS: 1e5 } } }])
  })

  it('that cannot be read changes nothing, and is told of with what is wrong', () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), [devicesTable]))
    const told: string[] = []
    const registry = createRegistry(store.value, systemClock, silentLogger(), (...fault) => told.push(fault.join(' ')))
    registry.onState('a', said('ready', 4))
    registry.onTelemetry('a', payload(telemetry(1e5)))
    for (const bad of ['', '{', '[]', '{"v":1}', JSON.stringify({ ...telemetry(-5) }), JSON.stringify({ ...telemetry(1), v: 2 })])
      registry.onTelemetry('a', Buffer.from(bad))
    registry.onTelemetry('a', Buffer.from([0xff, 0xfe, 0x00]))
    expect(told).toHaveLength(7)
    expect(told).toContain('a telemetry not UTF-8')
    expect(told).toContain('a telemetry unsupported version; this release supports version 1')
    expect(told).toContainEqual(expect.stringMatching(/^a telemetry "link.upBytesPerS": .*>=0/))
    expect(registry.devices()).toMatchObject([{ telemetry: { link: { upBytesPerS: 1e5 } } }])
  })
})

const disposable = (store: Store) => ({ value: store, [Symbol.dispose]: () => store.close() })
