import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createRegistry, devicesTable } from '../../cloud-bridge/fleet/registry.ts'
import { type ControlOptions, connectControl } from '../../cloud-bridge/link/control.ts'
import { type Clock, systemClock } from '../../core/base/clock.ts'
import type { DeviceState, DeviceTelemetry } from '../../core/protocol/messages.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/protocol/topics.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'
import { portOf, startRelay, through } from '../../lab/relay.ts'
import { mosquittoMissing, mqttClient, powerCut, startBroker, startMosquitto, watchTopic } from '../support/broker.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { tempDir } from '../support/temp-dir.ts'

const at = '2026-01-02T03:04:05.678Z'
const said = (state: DeviceState['state'], birth: number, more: object = {}) =>
  Buffer.from(JSON.stringify({ v: 1, state, birth, at, ...more }))

describe('the registry', () => {
  const open = (path: string, clock: Clock = systemClock) => {
    const store = openDatabase(join(path, 'brim.sqlite'), [devicesTable])
    const registry = createRegistry(store, clock, silentLogger())
    return {
      registry,
      close: () => store.close(),
      line: () => registry.devices().map(({ id, state, birth }) => [id, state, birth]),
    }
  }

  it('follows a device through its births, and is not fooled by a late will', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.heard('jetson-01', said('ready', 4, { agent: '0.1.0', modelId: 'ab'.repeat(32) }))
    registry.heard('jetson-01', said('lost', 4))
    expect(line()).toEqual([['jetson-01', 'lost', 4]])
    registry.heard('jetson-01', said('ready', 5))
    registry.heard('jetson-01', said('lost', 4))
    expect(line()).toEqual([['jetson-01', 'ready', 5]])
    expect(registry.devices()[0]).toMatchObject({ agent: '0.1.0', modelId: 'ab'.repeat(32) })
    close()
  })

  it('knows a device again that was installed anew and counts its births from 1', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.heard('jetson-01', said('ready', 57))
    registry.heard('jetson-01', said('lost', 57))
    registry.heard('jetson-01', said('ready', 1))
    expect(line()).toEqual([['jetson-01', 'ready', 1]])
    registry.heard('jetson-01', said('disconnected', 1))
    expect(line()).toEqual([['jetson-01', 'disconnected', 1]])
    close()
  })

  it('outlives a database that cannot be written, and says so', () => {
    using dir = tempDir()
    const store = openDatabase(join(dir.path, 'brim.sqlite'), [devicesTable])
    const { logger, lines } = recordingLogger('error')
    const registry = createRegistry(store, systemClock, logger)
    // As far as SQLite is concerned, a full or read-only disk.
    store.pragma('query_only = ON')
    registry.heard('jetson-01', said('ready', 1))
    expect(lines).toMatchObject([{ msg: 'device state not stored', device: 'jetson-01' }])
    store.pragma('query_only = OFF')
    registry.heard('jetson-01', said('ready', 1))
    expect(registry.devices()).toMatchObject([{ id: 'jetson-01', state: 'ready' }])
    store.close()
  })

  it('ignores what is no state, and an emptied topic', () => {
    using dir = tempDir()
    const { registry, line, close } = open(dir.path)
    registry.heard('jetson-01', said('ready', 1))
    for (const bad of ['', '{', '[]', '{"v":1}', '{"v":2,"state":"lost","birth":9,"at":"2026-01-02T03:04:05Z"}'])
      registry.heard('jetson-01', Buffer.from(bad))
    registry.heard('jetson-01', Buffer.from([0xff, 0xfe, 0x00]))
    expect(line()).toEqual([['jetson-01', 'ready', 1]])
    close()
  })

  it('knows its devices after a restart, but calls nobody present until heard of', () => {
    using dir = tempDir()
    const before = open(dir.path)
    before.registry.heard('a', said('ready', 2))
    before.registry.heard('b', said('disconnected', 7))
    before.close()
    const { registry, line, close } = open(dir.path)
    registry.startOver()
    expect(line()).toEqual([
      ['a', 'lost', 2],
      ['b', 'disconnected', 7],
    ])
    registry.heard('a', said('ready', 2))
    expect(line()[0]).toEqual(['a', 'ready', 2])
    close()
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
    const registry = createRegistry(store.value, clock, silentLogger())
    registry.heard('a', said('ready', 4))
    registry.heard('b', said('ready', 1))
    registry.measured('a', payload(telemetry(1e5)))
    await clock.advance(10_000)
    registry.measured('a', payload({ ...telemetry(null), battery: { level: 1 } }))
    await clock.advance(2_500)
    const { v: _, ...shown } = telemetry(null)
    expect(registry.devices().map(({ id, telemetry }) => [id, telemetry])).toEqual([
      ['a', { ageS: 2.5, ...shown }],
      ['b', null],
    ])
  })

  it('that cannot be read changes nothing, and is told of once', () => {
    using dir = tempDir()
    using store = disposable(openDatabase(join(dir.path, 'brim.sqlite'), [devicesTable]))
    const { logger, lines } = recordingLogger('warn')
    const registry = createRegistry(store.value, systemClock, logger)
    registry.heard('a', said('ready', 4))
    registry.measured('a', payload(telemetry(1e5)))
    for (const bad of ['', '{', '[]', '{"v":1}', JSON.stringify({ ...telemetry(-5) }), JSON.stringify({ ...telemetry(1), v: 2 })])
      registry.measured('a', Buffer.from(bad))
    registry.measured('a', Buffer.from([0xff, 0xfe, 0x00]))
    expect(lines).toMatchObject([{ msg: 'unreadable device telemetry ignored', device: 'a' }])
    expect(registry.devices()).toMatchObject([{ telemetry: { link: { upBytesPerS: 1e5 } } }])
  })
})

const disposable = (store: Store) => ({ value: store, [Symbol.dispose]: () => store.close() })

const topic = bridgeStateTopic('default', 'bridge-1')

/** Connects bridge-1 to a broker. */
const joinFleet = (url: string, options: { birth: number } & Partial<ControlOptions>) =>
  connectControl({
    url,
    fleet: 'default',
    bridge: 'bridge-1',
    describe: () => ({ data: 'ws://127.0.0.1:1/v1/data', sessions: 2 }),
    onDeviceState: () => {},
    onDeviceTelemetry: () => {},
    onJobEvent: () => {},
    onDeviceReply: () => {},
    onDeviceLog: () => {},
    logger: silentLogger(),
    ...options,
  })

const brokers = [
  { name: 'the embedded broker', start: startBroker, missing: false },
  { name: 'mosquitto', start: startMosquitto, missing: mosquittoMissing() },
]

describe.each(brokers)('on $name', ({ start, missing }) => {
  it.skipIf(missing)('a bridge shows itself as ready, and as disconnected when it leaves', async () => {
    await using broker = await start()
    await using watcher = await watchTopic(broker.url, topic)
    const control = await joinFleet(broker.url, { birth: 3 })
    await expect.poll(() => watcher.messages.length).toBe(1)
    expect(JSON.parse(watcher.messages[0]?.text ?? '')).toMatchObject({
      state: 'ready',
      birth: 3,
      data: 'ws://127.0.0.1:1/v1/data',
      sessions: 2,
    })
    await control.close()
    await expect.poll(() => watcher.messages.map((message) => JSON.parse(message.text).state)).toEqual(['ready', 'disconnected'])
  })

  it.skipIf(missing)('a bridge whose connection was taken over comes back, and buries the will of the intruder', async () => {
    await using broker = await start()
    await using watcher = await watchTopic(broker.url, topic)
    const control = await joinFleet(broker.url, { birth: 3 })
    const will = {
      topic,
      payload: Buffer.from(JSON.stringify({ v: 1, state: 'lost', birth: 2, at })),
      qos: 1,
      retain: true,
    } as const
    await mqttClient(broker.url, 'bridge-bridge-1', { will })
    const states = () =>
      watcher.messages.map((message) => JSON.parse(message.text)).map(({ state, birth }) => `${state} ${birth}`)
    await expect.poll(states, { timeout: 10_000 }).toContain('lost 2')
    await expect.poll(() => states().at(-1)).toBe('ready 3')
    await control.close()
  })

  it.skipIf(missing)('a device is heard of by its telemetry, under its name', async () => {
    await using broker = await start()
    const heard: [string, string][] = []
    const control = await joinFleet(broker.url, {
      birth: 1,
      onDeviceTelemetry: (device, payload) => heard.push([device, Buffer.from(payload).toString()]),
    })
    const device = await mqttClient(broker.url, 'device-jetson-01')
    await expect
      .poll(async () => {
        await device.publishAsync(deviceTopic('default', 'jetson-01', 'telemetry'), 'figures', { qos: 0 })
        return heard[0]
      })
      .toEqual(['jetson-01', 'figures'])
    await device.endAsync()
    await control.close()
  })

  it.skipIf(missing)('a device that loses power is heard of as lost, through its will', async () => {
    await using broker = await start()
    const heard: [string, unknown][] = []
    const control = await joinFleet(broker.url, {
      birth: 1,
      onDeviceState: (device, payload) => heard.push([device, JSON.parse(Buffer.from(payload).toString()).state]),
    })
    const state = deviceTopic('default', 'jetson-01', 'state')
    const device = await mqttClient(broker.url, 'device-jetson-01', {
      will: { topic: state, payload: said('lost', 1), qos: 1, retain: true },
    })
    await device.publishAsync(state, said('ready', 1), { qos: 1, retain: true })
    await expect.poll(() => heard).toEqual([['jetson-01', 'ready']])
    powerCut(device)
    await expect
      .poll(() => heard)
      .toEqual([
        ['jetson-01', 'ready'],
        ['jetson-01', 'lost'],
      ])
    await control.close()
  })
})

it.skipIf(mosquittoMissing())('a late will of an earlier start is replaced at once', async () => {
  // mosquitto lets anyone publish anywhere: a way to have exactly this arrive while the bridge is connected.
  await using broker = await startMosquitto()
  const control = await joinFleet(broker.url, { birth: 3 })
  const late = await mqttClient(broker.url, 'late')
  await late.publishAsync(topic, JSON.stringify({ v: 1, state: 'lost', birth: 2, at }), { qos: 1, retain: true })
  await expect
    .poll(async () => {
      await using watcher = await watchTopic(broker.url, topic)
      await expect.poll(() => watcher.messages.length).toBeGreaterThan(0)
      return JSON.parse(watcher.messages[0]?.text ?? '')
    })
    .toMatchObject({ state: 'ready', birth: 3 })
  await late.endAsync()
  await control.close()
})

it('a broker that hangs does not keep a bridge that stops', async () => {
  await using broker = await startBroker()
  await using relay = await startRelay(portOf(broker.url))
  const control = await joinFleet(through(relay, broker.url), { birth: 1 })
  relay.stall()
  await control.close()
})

it('a broker that is not there is named, with what to check', async () => {
  const gone = await startBroker()
  const { url } = gone
  await gone[Symbol.asyncDispose]()
  const control = joinFleet(url, { birth: 1, connectTimeoutMs: 200 })
  await expect(control).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE', message: expect.stringContaining(url) })
})
