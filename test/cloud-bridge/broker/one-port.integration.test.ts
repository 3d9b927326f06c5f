import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type IdentityStore, openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { type AgentWorld, startAgentWorld } from '../../support/agent-world.ts'
import { closed, mqttClient } from '../../support/broker.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { postJson } from '../../support/post-json.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

/** A bridge with TLS that listens on one port, and requires proof of identity. */
let dir: TempDir
let world: AgentWorld
let store: IdentityStore
beforeAll(async () => {
  dir = tempDir()
  const tls = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  for (const part of ['cert', 'key'] as const) {
    copyFileSync(fileURLToPath(new URL(`../../fixtures/tls/first.${part}.pem`, import.meta.url)), tls[part])
    chmodSync(tls[part], 0o600)
  }
  world = await startAgentWorld({ bridge: { auth: true, onePort: true, mqttPort: undefined, tls } })
  store = openIdentityStore(join(world.dir, 'bridge'))
})
afterAll(async () => {
  store?.close()
  await world?.[Symbol.asyncDispose]()
  dir[Symbol.dispose]()
})

const insecure = { rejectUnauthorized: false }
const device = 'brim/v1/default/device/orin'

it('an agent uses the port of HTTP for everything, and a viewer watches it there until its key is revoked', async () => {
  const { id, key } = store.createKey('operator:test', 'wall', 'viewer')
  const viewer = await mqttClient(world.bridge.mqttUrl, 'MQTT-Explorer', { ...insecure, username: 'any', password: key })
  const operatorKey = store.createKey('operator:test', 'ops', 'operator').key
  const operator = await mqttClient(world.bridge.mqttUrl, 'mosquitto_sub', { ...insecure, username: 'x', password: operatorKey })
  const seen = { viewer: new Set<string>(), operator: new Set<string>() }
  viewer.on('message', (topic) => seen.viewer.add(topic))
  operator.on('message', (topic) => seen.operator.add(topic))
  await viewer.subscribeAsync('#')
  await operator.subscribeAsync('brim/v1/#')

  const { enrolment } = await enrolDevice(world, store, 'orin')
  expect(enrolment.mqttUrl).toBe(world.bridge.mqttUrl)
  const { apiUrl } = await world.startAgent({ id: 'orin', bridges: undefined })
  const answered = await postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0 })
  expect(answered.status).toBe(200)
  await expect.poll(() => [...seen.viewer]).toContain(`${device}/state`)
  await expect.poll(() => [...seen.viewer]).toContain('brim/v1/default/bridge/bridge-1/state')
  await expect.poll(() => [...seen.operator]).toContain(`${device}/state`)
  const own = store.createKey('operator:test', 'other', 'viewer').key
  const forger = await mqttClient(world.bridge.mqttUrl, 'forger', { ...insecure, username: 'x', password: own })
  const cut = closed(forger)
  forger.publish(`${device}/state`, 'forged')
  await cut
  const ended = closed(viewer)
  store.revokeKey('operator:test', id)
  await ended
  expect(operator.connected).toBe(true)
  await operator.endAsync(true)
})

it('an agent that enrolled when the bridge had a port for MQTT finds it on the port of HTTP', async () => {
  await enrolDevice(world, store, 'before')
  const file = join(world.dir, 'before', 'identity', 'enrolments.json')
  const [enrolment] = JSON.parse(readFileSync(file, 'utf8'))
  writeFileSync(file, JSON.stringify([{ ...enrolment, mqttUrl: 'mqtts://127.0.0.1:1' }]))
  const operatorKey = store.createKey('operator:test', 'ops', 'operator').key
  const operator = await mqttClient(world.bridge.mqttUrl, 'watcher', { ...insecure, username: 'x', password: operatorKey })
  const seen = new Set<string>()
  operator.on('message', (topic) => seen.add(topic))
  await operator.subscribeAsync('brim/v1/#')
  await world.startAgent({ id: 'before', bridges: undefined })
  await expect.poll(() => [...seen]).toContain('brim/v1/default/device/before/state')
  await operator.endAsync(true)
})

it.each([
  ['a device id', 'device-orin', {}],
  ['a bridge id', 'bridge-bridge-1', {}],
  ['a will', 'wall', { will: { topic: `${device}/state`, payload: Buffer.from('lost'), qos: 1, retain: true } } as const],
])('a key of a viewer does not give %s', async (_, clientId, options) => {
  const { key } = store.createKey('operator:test', 'wall', 'viewer')
  const login = { ...insecure, username: 'any', password: key }
  await expect(mqttClient(world.bridge.mqttUrl, clientId, { ...login, ...options })).rejects.toThrow(/not authorized/i)
})
