import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { startEmbeddedBroker } from '../../cloud-bridge/broker/embedded-broker.ts'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { closed, mosquittoMissing, mqttClient, startMosquitto, watchTopic } from '../support/broker.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { shared } from '../support/shared.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { tempDir } from '../support/temp-dir.ts'
import { connectDevice } from '../support/test-device.ts'

const width = 64
const stateOf = (device: string) => deviceTopic('default', device, 'state')
const ready = JSON.stringify({ v: 1, state: 'ready', birth: 1, at: '2026-01-01T00:00:00Z' })
const lost = { topic: stateOf('ghost'), payload: Buffer.from(ready), qos: 1, retain: true } as const

const dir = shared(tempDir)
let bundle: string
let bridge: TestBridge
let store: IdentityStore
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path, { adapter: false })
})
beforeEach(async ({ task }) => {
  const stateDir = join(dir.path, task.id)
  bridge = await startTestBridge({ bundle, stateDir })
  store = openIdentityStore(stateDir)
})
afterEach(async () => {
  await bridge.close()
  store.close()
})

const enrol = (device: string) => enrolDevice({ dir: dir.path, bridge }, store, device)
const devices = async (): Promise<{ id: string; state: string | null }[]> => {
  const headers = { authorization: `Bearer ${store.createKey('operator:test', 'test', 'viewer').key}` }
  const response = await fetch(`${bridge.httpUrl}/v1/devices`, { headers })
  return ((await response.json()) as { devices: { id: string; state: string | null }[] }).devices
}

it('ends what clients without a proof have opened before: MQTT, data plane and event streams', async () => {
  await using watcher = await watchTopic(bridge.mqttUrl, '#')
  const ghost = await mqttClient(bridge.mqttUrl, 'device-ghost', { will: lost })
  await ghost.publishAsync(stateOf('ghost'), ready, { qos: 1, retain: true })
  await expect.poll(devices).toMatchObject([{ id: 'ghost', state: 'ready' }])
  const link = await connectDevice(bridge.dataUrl, 'ghost', width)
  await link.flushed()
  const events = await fetch(`${bridge.httpUrl}/v1/fleet/events`)
  const stream = events.text().catch(() => 'ended')
  const cut = closed(ghost)
  const received = watcher.messages.length

  const device = await enrol('honest')
  await cut
  expect(await link.closed).toMatchObject({ reason: 'NOT_AUTHORIZED' })
  expect(await stream).toBeDefined()
  await expect(mqttClient(bridge.mqttUrl, 'device-ghost')).rejects.toThrow(/not authorized/i)
  await expect(watchTopic(bridge.mqttUrl, '#')).rejects.toThrow(/not authorized/i)
  // What the ghost reported is gone, its will was not published, and the watcher has received nothing more.
  const password = await device.mqttPassword()
  const honest = await mqttClient(bridge.mqttUrl, 'device-honest', { username: 'device-honest', password })
  await honest.publishAsync(stateOf('honest'), ready, { qos: 1, retain: true })
  await expect.poll(devices).toMatchObject([{ id: 'honest', state: 'ready' }])
  expect(watcher.messages.slice(received).filter(({ text }) => text !== '')).toEqual([])
  await honest.endAsync()
})

it('forgets what was reported under the name of the device that enrols', async () => {
  const ghost = await mqttClient(bridge.mqttUrl, 'device-honest')
  await ghost.publishAsync(stateOf('honest'), ready, { qos: 1, retain: true })
  await expect.poll(devices).toMatchObject([{ id: 'honest', state: 'ready' }])
  const cut = closed(ghost)
  await enrol('honest')
  await cut
  expect(await devices()).toMatchObject([{ id: 'honest', state: null }])
})

it('a client without a proof is never a bridge, also before', async () => {
  for (const id of ['bridge-bridge-1', 'bridge-other'])
    await expect(mqttClient(bridge.mqttUrl, id)).rejects.toThrow(/not authorized/i)
  await using watcher = await watchTopic(bridge.mqttUrl, bridgeStateTopic('default', 'bridge-1'))
  await expect.poll(() => watcher.messages.map(({ text }) => JSON.parse(text).state)).toEqual(['ready'])
})

it('clears at the broker the retained messages of all that have not proven to be their owner', async () => {
  const gate = { authRequired: false, subjectOf: (token: string) => (token.startsWith('proof-') ? token.slice(6) : undefined) }
  const limits = BridgeLimits.parse({})
  const broker = await startEmbeddedBroker({
    host: '127.0.0.1',
    port: 0,
    limits,
    fleet: 'default',
    gate,
    clock: systemClock,
    logger: silentLogger(),
  })
  const proven = (id: string) => mqttClient(broker.url, id, { username: id, password: `proof-${id}` })
  const own = await proven('bridge-b')
  await own.publishAsync(bridgeStateTopic('default', 'b'), 'own', { qos: 1, retain: true })
  const ghost = await mqttClient(broker.url, 'device-ghost')
  await ghost.publishAsync(stateOf('ghost'), 'forged', { qos: 1, retain: true })
  const cut = closed(ghost)
  gate.authRequired = true
  broker.dropUnproven()
  await cut
  const retained: string[] = []
  own.on('message', (_, payload) => retained.push(payload.toString()))
  await own.subscribeAsync([stateOf('ghost'), bridgeStateTopic('default', 'b')])
  await expect.poll(() => retained).toEqual(['own'])
  await own.endAsync()
  await broker.close()
})

it.skipIf(mosquittoMissing())('no device enrols where the broker accepts every client', async () => {
  await using mosquitto = await startMosquitto()
  const stateDir = join(dir.path, 'open-broker')
  await using open = await startTestBridge({ bundle, stateDir, broker: { url: mosquitto.url } })
  const own = openIdentityStore(stateDir)
  await expect(enrolDevice({ dir: dir.path, bridge: open }, own, 'honest')).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
  expect(own.devices()).toEqual([])
  own.close()
})
