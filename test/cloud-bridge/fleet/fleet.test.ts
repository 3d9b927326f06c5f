import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { devicesComputing, devicesTable } from '../../../cloud-bridge/fleet/device-table.ts'
import type { Registry } from '../../../cloud-bridge/fleet/registry.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import { openDatabase, type Store } from '../../../core/kit/store/open-database.ts'
import type { DeviceState, DeviceTelemetry } from '../../../core/wire/protocol/messages.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { openTestRegistry } from '../../support/registry.ts'
import { tempDir } from '../../support/temp-dir.ts'

const deviceTables = [devicesTable, devicesComputing]
const at = '2026-01-02T03:04:05.678Z'
const stateMessage = (state: DeviceState['state'], birth: number, more: object = {}) =>
  Buffer.from(JSON.stringify({ v: 1, state, birth, at, ...more }))

const devicesOf = (registry: Registry) => [...registry.ids()].sort().map((id) => registry.device(id)!)

describe('the registry', () => {
  const open = (path: string, clock: Clock = systemClock) => {
    const store = openDatabase(join(path, 'brim.sqlite'), deviceTables)
    const registry = openTestRegistry({ store, clock })
    return {
      registry,
      close: () => {
        registry.write()
        store.close()
      },
      line: () => devicesOf(registry).map(({ id, state, birth }) => [id, state, birth]),
    }
  }

  it('follows a device through its births, and ignores a late will', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.onState('jetson-01', stateMessage('ready', 4, { agent: '0.1.0', modelId: 'ab'.repeat(32) }))
    registry.onState('jetson-01', stateMessage('lost', 4))
    expect(line()).toEqual([['jetson-01', 'lost', 4]])
    registry.onState('jetson-01', stateMessage('ready', 5))
    registry.onState('jetson-01', stateMessage('lost', 4))
    expect(line()).toEqual([['jetson-01', 'ready', 5]])
    expect(devicesOf(registry)[0]).toMatchObject({ agent: '0.1.0', modelId: 'ab'.repeat(32) })
    close()
  })

  it('stores what computes on a device, until an agent starts that does not say it', () => {
    using dir = tempDir()
    const path = join(dir.path, 'brim.sqlite')
    // As an earlier release has left it.
    const before = openDatabase(path, [devicesTable])
    before.exec("INSERT INTO devices VALUES ('jetson-01', 'ready', 3, '2026-01-01T00:00:00Z', '0.2.0', NULL)")
    before.close()
    const computing = { llm: { provider: 'cpu', reason: 'webgpu failed its trial: no memory', failed: true } }
    for (const [state, birth, said, expected] of [
      ['ready', 3, {}, null],
      ['ready', 4, { computing }, computing],
      ['lost', 4, {}, computing],
      ['ready', 5, {}, null],
    ] as const) {
      const { registry, close } = open(dir.path)
      expect(registry.device('jetson-01')).toMatchObject({ id: 'jetson-01' })
      registry.onState('jetson-01', stateMessage(state, birth, said))
      expect(registry.device('jetson-01')?.computing).toEqual(expected)
      close()
      const after = open(dir.path)
      expect(after.registry.device('jetson-01')?.computing).toEqual(expected)
      after.close()
    }
  })

  it('counts connected devices by what computes, without names that only one device knows', () => {
    using dir = tempDir()
    const { registry, close } = open(dir.path)
    const on = (provider: string) => ({ computing: { llm: { provider, reason: '' } } })
    const slm = { computing: { slm: { provider: 'cuda', reason: '' } } }
    for (const [at, said] of [on('cpu'), on('cpu'), on('webgpu'), on('mine'), on('yours'), slm, {}].entries())
      registry.onState(`device-${at}`, stateMessage('ready', 1, said))
    expect(registry.computing()).toEqual({ cpu: 2, webgpu: 1, cuda: 1, other: 2 })
    registry.onState('device-2', stateMessage('lost', 1))
    expect(registry.computing()).toEqual({ cpu: 2, cuda: 1, other: 2 })
    close()
  })

  it('was last seen before its will, which is the message of the broker', () => {
    using dir = tempDir()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-01-01T00:00:00Z') })
    const { registry, close } = open(dir.path)
    registry.onState('jetson-01', stateMessage('ready', 4))
    vi.setSystemTime(Date.parse('2026-01-01T01:00:00Z'))
    registry.onState('jetson-01', stateMessage('lost', 4))
    expect(devicesOf(registry)[0]).toMatchObject({ state: 'lost', lastSeen: '2026-01-01T00:00:00.000Z' })
    close()
    vi.useRealTimers()
  })

  it('accepts births from 1 again after a new installation of the agent', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.onState('jetson-01', stateMessage('ready', 57))
    registry.onState('jetson-01', stateMessage('lost', 57))
    registry.onState('jetson-01', stateMessage('ready', 1))
    expect(line()).toEqual([['jetson-01', 'ready', 1]])
    registry.onState('jetson-01', stateMessage('disconnected', 1))
    expect(line()).toEqual([['jetson-01', 'disconnected', 1]])
    close()
  })

  it('survives a database that is not writable, and logs it', () => {
    using dir = tempDir()
    const store = openDatabase(join(dir.path, 'brim.sqlite'), deviceTables)
    const { logger, lines } = recordingLogger('error')
    const registry = openTestRegistry({ store, logger })
    // For SQLite the same as a full or read-only disk.
    store.pragma('query_only = ON')
    expect(registry.onState('jetson-01', stateMessage('ready', 1))).toBeDefined()
    registry.write()
    expect(lines).toMatchObject([{ msg: 'device states not stored' }])
    expect(devicesOf(registry)).toMatchObject([{ id: 'jetson-01', state: 'ready' }])
    // The next write tries again.
    store.pragma('query_only = OFF')
    registry.write()
    expect(devicesOf(openTestRegistry({ store }))).toMatchObject([{ id: 'jetson-01', state: 'ready' }])
    store.close()
  })

  it('ignores unreadable states and an empty payload', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.onState('jetson-01', stateMessage('ready', 1))
    for (const bad of ['', '{', '[]', '{"v":1}', '{"v":2,"state":"lost","birth":9,"at":"2026-01-02T03:04:05Z"}'])
      registry.onState('jetson-01', Buffer.from(bad))
    registry.onState('jetson-01', Buffer.from([0xff, 0xfe, 0x00]))
    expect(line()).toEqual([['jetson-01', 'ready', 1]])
    close()
  })

  it('restores its devices after a restart, and counts them as lost until they publish their state', () => {
    using dir = tempDir()
    const before = open(dir.path)
    before.registry.onState('a', stateMessage('ready', 2))
    before.registry.onState('b', stateMessage('disconnected', 7))
    before.close()
    const { registry, line, close } = open(dir.path)
    registry.markAllLost()
    expect(line()).toEqual([
      ['a', 'lost', 2],
      ['b', 'disconnected', 7],
    ])
    registry.onState('a', stateMessage('ready', 2))
    expect(line()[0]).toEqual(['a', 'ready', 2])
    close()
  })
})

describe('heartbeats', () => {
  const beats = { heartbeatS: 30, connection: 1 }
  const open = (path: string) => {
    const store = openDatabase(join(path, 'brim.sqlite'), deviceTables)
    const clock = fakeClock()
    const { logger, lines } = recordingLogger('info')
    const registry = openTestRegistry({ store, clock, logger })
    const only = () => devicesOf(registry)[0]!
    return { registry, clock, lines, only, [Symbol.dispose]: () => store.close() }
  }

  it('are neither new states nor logged, but update lastSeen', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry, clock, lines, only } = world
    expect(registry.onState('a', stateMessage('ready', 1, beats))).toBeDefined()
    const { lastSeen } = only()
    for (let beat = 1; beat <= 3; beat++) {
      await clock.advance(30_000)
      const at = `2026-01-02T03:04:0${beat}.000Z`
      expect(registry.onState('a', stateMessage('ready', 1, { ...beats, at }))).toBeUndefined()
    }
    await expect
      .poll(() => {
        registry.onState('a', stateMessage('ready', 1, beats))
        return only().lastSeen
      })
      .not.toBe(lastSeen)
    expect(lines.map(({ msg }) => msg)).toEqual(['device state'])
  })

  it('count as new states after a reconnection or a change of the supported jobs', () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { onState } = world.registry
    onState('a', stateMessage('ready', 1, beats))
    expect(onState('a', stateMessage('ready', 1, { ...beats, connection: 2 }))).toBeDefined()
    expect(onState('a', stateMessage('ready', 1, { ...beats, connection: 2, jobs: ['profile'] }))).toBeDefined()
    expect(onState('a', stateMessage('ready', 1, { ...beats, connection: 2, jobs: ['profile'] }))).toBeUndefined()
    // An older agent does not number its connections, so it may have reconnected.
    for (let time = 0; time < 2; time++) expect(onState('old', stateMessage('ready', 1))).toBeDefined()
  })

  it('that stop make a device lost once, and that return make it ready', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry, clock, only } = world
    registry.onState('a', stateMessage('ready', 1, beats))
    registry.onState('without heartbeats', stateMessage('ready', 1))
    await clock.advance(90_000)
    expect(registry.expireHeartbeats()).toEqual([])
    await clock.advance(1)
    expect(registry.expireHeartbeats()).toMatchObject([{ device: 'a', state: { state: 'lost', birth: 1 } }])
    expect(registry.expireHeartbeats()).toEqual([])
    expect(only().state).toBe('lost')
    expect(registry.onState('a', stateMessage('ready', 1, beats))).toBeDefined()
    expect(only().state).toBe('ready')
  })

  it('are not missed during an outage of the broker, nor of a disconnected device', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry, clock } = world
    registry.onState('a', stateMessage('ready', 1, beats))
    registry.onState('b', stateMessage('ready', 1, beats))
    registry.onState('b', stateMessage('disconnected', 1, beats))
    await clock.advance(600_000)
    registry.onBrokerLost()
    expect(registry.expireHeartbeats()).toEqual([])
    await clock.advance(90_001)
    expect(registry.expireHeartbeats().map(({ device }) => device)).toEqual(['a'])
  })

  it('count as new states after an outage of the broker, in which messages may be lost', async () => {
    using dir = tempDir()
    using world = open(dir.path)
    const { registry } = world
    registry.onState('a', stateMessage('ready', 1, beats))
    expect(registry.onState('a', stateMessage('ready', 1, beats))).toBeUndefined()
    registry.onBrokerLost()
    expect(registry.onState('a', stateMessage('ready', 1, beats))).toBeDefined()
    expect(registry.onState('a', stateMessage('ready', 1, beats))).toBeUndefined()
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

  it('is listed as the latest sample of each device, with its age', async () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), deviceTables))
    const clock = fakeClock()
    const registry = openTestRegistry({ store: store.value, clock })
    registry.onState('a', stateMessage('ready', 4))
    registry.onState('b', stateMessage('ready', 1))
    registry.onTelemetry('a', payload(telemetry(1e5)))
    await clock.advance(10_000)
    registry.onTelemetry('a', payload({ ...telemetry(null), battery: { level: 1 } }))
    await clock.advance(2_500)
    const { v: _, ...shown } = telemetry(null)
    expect(devicesOf(registry).map(({ id, telemetry }) => [id, telemetry])).toEqual([
      ['a', { ageS: 2.5, ...shown }],
      ['b', null],
    ])
  })

  it('that is replayed does not become the latest sample', () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), deviceTables))
    const registry = openTestRegistry({ store: store.value })
    registry.onState('a', stateMessage('ready', 4))
    expect(registry.onTelemetry('a', payload({ ...telemetry(7), replayed: true }))).toMatchObject({
      telemetry: { replayed: true },
    })
    expect(devicesOf(registry)).toMatchObject([{ telemetry: null }])
    registry.onTelemetry('a', payload(telemetry(1e5)))
    registry.onTelemetry('a', payload({ ...telemetry(7), replayed: true }))
    expect(devicesOf(registry)).toMatchObject([{ telemetry: { link: { upBytesPerS: 1e5 } } }])
  })

  it('that is unreadable changes nothing, and is reported with the reason', () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), deviceTables))
    const reported: string[] = []
    const registry = openTestRegistry({ store: store.value, onUnreadable: (...fault) => reported.push(fault.join(' ')) })
    registry.onState('a', stateMessage('ready', 4))
    registry.onTelemetry('a', payload(telemetry(1e5)))
    for (const bad of ['', '{', '[]', '{"v":1}', JSON.stringify({ ...telemetry(-5) }), JSON.stringify({ ...telemetry(1), v: 2 })])
      registry.onTelemetry('a', Buffer.from(bad))
    registry.onTelemetry('a', Buffer.from([0xff, 0xfe, 0x00]))
    expect(reported).toHaveLength(7)
    expect(reported).toContain('a telemetry not UTF-8')
    expect(reported).toContain('a telemetry unsupported version; this release supports version 1')
    expect(reported).toContainEqual(expect.stringMatching(/^a telemetry "link.upBytesPerS": must be at least 0/))
    expect(devicesOf(registry)).toMatchObject([{ telemetry: { link: { upBytesPerS: 1e5 } } }])
  })
})

const disposable = (store: Store) => ({ value: store, [Symbol.dispose]: () => store.close() })
