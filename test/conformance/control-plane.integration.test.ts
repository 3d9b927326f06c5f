import { describe, expect, it } from 'vitest'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { portOf, startRelay, through } from '../../lab/cluster/relay.ts'
import {
  closed,
  mosquittoMissing,
  mqttClient,
  packetLimitBytes,
  powerCut,
  startBroker,
  startMosquitto,
  watchTopic,
} from '../support/broker.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { joinFleet } from '../support/join-fleet.ts'

const at = '2026-01-02T03:04:05.678Z'
const deviceState = (state: DeviceState['state'], birth: number) => Buffer.from(JSON.stringify({ v: 1, state, birth, at }))
const stateOf = (device: string) => deviceTopic('default', device, 'state')

const topic = bridgeStateTopic('default', 'bridge-1')

const brokers = [
  { name: 'the embedded broker', start: startBroker, missing: false },
  { name: 'mosquitto', start: startMosquitto, missing: mosquittoMissing() },
]

describe.each(brokers)('on $name', ({ start, missing }) => {
  it.skipIf(missing)('a retained state is delivered to later subscribers', async () => {
    await using broker = await start()
    const device = await mqttClient(broker.url, 'device-a')
    await device.publishAsync(stateOf('a'), 'here', { qos: 1, retain: true })
    await using watcher = await watchTopic(broker.url, stateOf('a'))
    await expect.poll(() => watcher.messages).toEqual([{ topic: stateOf('a'), text: 'here', retain: true }])
    await device.endAsync()
  })

  it.skipIf(missing)('a device that sends too large a packet is disconnected; one at the limit is received', async () => {
    await using broker = await start()
    await using watcher = await watchTopic(broker.url, stateOf('a'))
    const device = await mqttClient(broker.url, 'device-a')
    await device.publishAsync(stateOf('a'), Buffer.alloc(packetLimitBytes - 100, 0x61), { qos: 1 })
    await expect.poll(() => watcher.messages[0]?.text.length).toBe(packetLimitBytes - 100)
    const cut = closed(device)
    device.publish(stateOf('a'), Buffer.alloc(packetLimitBytes + 1))
    await cut
    expect(watcher.messages).toHaveLength(1)
  })

  it.skipIf(missing)('no acknowledged message to a slow device is lost', async () => {
    await using broker = await start()
    const topic = deviceTopic('default', 'a', 'jobs')
    const device = await mqttClient(broker.url, 'device-a')
    const received: string[] = []
    const held: (() => void)[] = []
    let slow = true
    device.handleMessage = ({ payload }, acknowledge) => {
      received.push(payload.toString())
      if (slow) held.push(acknowledge)
      else acknowledge()
    }
    await device.subscribeAsync(topic, { qos: 1 })
    const bridge = await mqttClient(broker.url, 'bridge-b')
    // Three times the number that mosquitto queues by default.
    const jobs = Array.from({ length: 3_000 }, (_, i) => `job ${i}`)
    await Promise.all(jobs.map((job) => bridge.publishAsync(topic, job, { qos: 1 })))
    slow = false
    for (const acknowledge of held) acknowledge()
    await expect.poll(() => received.length).toBe(jobs.length)
    expect(received).toEqual(jobs)
    await Promise.all([device.endAsync(), bridge.endAsync()])
  })

  it.skipIf(missing)('a bridge reconnects and receives again after the broker was killed and restarted', async () => {
    await using broker = await start()
    const received: string[] = []
    const control = await joinFleet(broker.url, { birth: 3, onDeviceState: (device) => received.push(device) })
    await broker.restart()
    const ready = async () => {
      await using watcher = await watchTopic(broker.url, topic)
      await expect.poll(() => watcher.messages.length).toBeGreaterThan(0)
      return JSON.parse(watcher.messages[0]!.text)
    }
    await expect.poll(ready).toMatchObject({ state: 'ready', birth: 3 })
    const device = await mqttClient(broker.url, 'device-a')
    await device.publishAsync(stateOf('a'), deviceState('ready', 1), { qos: 1, retain: true })
    await expect.poll(() => received).toEqual(['a'])
    await device.endAsync()
    await control.close()
  })

  it.skipIf(missing)('a bridge publishes ready, and disconnected when it stops', async () => {
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

  it.skipIf(missing)('a bridge whose connection was taken over reconnects and replaces the will of the intruder', async () => {
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
    await expect.poll(states).toContain('lost 2')
    await expect.poll(() => states().at(-1)).toBe('ready 3')
    await control.close()
  })

  it.skipIf(missing)('a bridge receives the telemetry of a device with its id', async () => {
    await using broker = await start()
    const received: [string, string][] = []
    const control = await joinFleet(broker.url, {
      birth: 1,
      onDeviceTelemetry: (device, payload) => received.push([device, Buffer.from(payload).toString()]),
    })
    const device = await mqttClient(broker.url, 'device-jetson-01')
    await expect
      .poll(async () => {
        await device.publishAsync(deviceTopic('default', 'jetson-01', 'telemetry'), 'figures', { qos: 0 })
        return received[0]
      })
      .toEqual(['jetson-01', 'figures'])
    await device.endAsync()
    await control.close()
  })

  it.skipIf(missing)('a bridge learns of a power cut from the will of the device', async () => {
    await using broker = await start()
    const received: [string, unknown][] = []
    const control = await joinFleet(broker.url, {
      birth: 1,
      onDeviceState: (device, payload) => received.push([device, JSON.parse(Buffer.from(payload).toString()).state]),
    })
    const state = deviceTopic('default', 'jetson-01', 'state')
    const device = await mqttClient(broker.url, 'device-jetson-01', {
      will: { topic: state, payload: deviceState('lost', 1), qos: 1, retain: true },
    })
    await device.publishAsync(state, deviceState('ready', 1), { qos: 1, retain: true })
    await expect.poll(() => received).toEqual([['jetson-01', 'ready']])
    powerCut(device)
    await expect
      .poll(() => received)
      .toEqual([
        ['jetson-01', 'ready'],
        ['jetson-01', 'lost'],
      ])
    await control.close()
  })
})

it.skipIf(mosquittoMissing())('a bridge replaces a late will of an earlier start at once', async () => {
  // This mosquitto accepts every publication, so a late will can be simulated while the bridge is connected.
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

it('a broker that does not respond does not delay the stop of a bridge by more than 2 s', async () => {
  await using broker = await startBroker()
  await using relay = await startRelay(portOf(broker.url))
  const clock = fakeClock()
  const control = await joinFleet(through(relay, broker.url), { birth: 1, clock })
  relay.stall()
  let isClosed = false
  void control.close().then(() => {
    isClosed = true
  })
  await clock.advance(2_000)
  await expect.poll(() => isClosed).toBe(true)
})

it('the error for an unreachable broker names it, with a hint', async () => {
  const stopped = await startBroker()
  const { url } = stopped
  await stopped[Symbol.asyncDispose]()
  const control = joinFleet(url, { birth: 1, connectTimeoutMs: 200 })
  await expect(control).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE', message: expect.stringContaining(url) })
})
