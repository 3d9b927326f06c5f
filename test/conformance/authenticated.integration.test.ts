import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { BridgeSettings } from '../../cloud-bridge/config.ts'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { freePort } from '../../lab/cluster/free-port.ts'
import { startMosquitto } from '../../lab/cluster/mosquitto.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { closed, mosquittoMissing, mqttClient, natsMissing, powerCut } from '../support/broker.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { startHookBroker } from '../support/hook-broker.ts'
import { startNats } from '../support/nats.ts'
import { postJson } from '../support/post-json.ts'
import { tempDir } from '../support/temp-dir.ts'
import { connectDevice } from '../support/test-device.ts'

const state = (device: string) => deviceTopic('default', device, 'state')
const readyState = JSON.stringify({ v: 1, state: 'ready', birth: 1, at: '2026-01-02T03:04:05.678Z' })
const refused = /not authorized/i

interface GuardedBroker extends AsyncDisposable {
  /** Whether a login is bound to its client id; otherwise client ids are secret. */
  readonly bindsIds: boolean
  /** QoS of subscriptions. */
  readonly qos: 0 | 1
  /** Settings of the bridge that uses this broker. */
  readonly settings: Partial<BridgeSettings>
}

const asTopicsSay = { bindsIds: true, qos: 1 } as const

async function drivenMosquitto(): Promise<GuardedBroker> {
  const { url, adminFile, [Symbol.asyncDispose]: dispose } = await startMosquitto({ guarded: true })
  return { ...asTopicsSay, settings: { broker: { url, adminFile } }, [Symbol.asyncDispose]: dispose }
}

async function drivenNats(): Promise<GuardedBroker> {
  const { url, adminFile, [Symbol.asyncDispose]: dispose } = await startNats(1)
  return { bindsIds: false, qos: 0, settings: { broker: { url, adminFile } }, [Symbol.asyncDispose]: dispose }
}

async function askingBroker(): Promise<GuardedBroker> {
  const dir = tempDir()
  const hookSecretFile = join(dir.path, 'secret')
  writeFileSync(hookSecretFile, 'a-secret-of-the-hook', { mode: 0o600 })
  const httpPort = await freePort()
  const broker = await startHookBroker(`http://127.0.0.1:${httpPort}`, 'a-secret-of-the-hook')
  return {
    ...asTopicsSay,
    settings: { httpPort, broker: { url: broker.url, hookSecretFile } },
    async [Symbol.asyncDispose]() {
      await broker[Symbol.asyncDispose]()
      dir[Symbol.dispose]()
    },
  }
}

const embedded = async (): Promise<GuardedBroker> => ({ ...asTopicsSay, settings: {}, [Symbol.asyncDispose]: async () => {} })

const brokers = [
  { name: 'the embedded broker', start: embedded, missing: false },
  { name: 'a mosquitto that the bridge drives', start: drivenMosquitto, missing: mosquittoMissing() },
  { name: 'a NATS that the bridge drives', start: drivenNats, missing: natsMissing() },
  { name: 'a broker that asks the bridge by HTTP', start: askingBroker, missing: false },
]

describe.each(brokers.filter(({ missing }) => !missing))('on $name', ({ start }) => {
  let broker: GuardedBroker | undefined
  let world: AgentWorld
  /** The bridge's store, opened a second time as an operator's commands do. */
  let store: IdentityStore
  let width: number
  let key: string
  beforeAll(async () => {
    broker = await start()
    world = await startAgentWorld({ bridge: { auth: true, ...broker.settings } })
    store = openIdentityStore(join(world.dir, 'bridge'))
    key = store.createKey('operator:test', 'test', 'viewer').key
    width = (await readManifest(world.bundle)).dims.hidden
  })
  afterAll(async () => {
    // If one could not be started, those before it are closed nevertheless.
    store?.close()
    await world?.[Symbol.asyncDispose]()
    await broker?.[Symbol.asyncDispose]()
  })

  const enrolled = (device: string, folder?: string) => enrolDevice(world, store, device, folder)
  const ask = (apiUrl: string) => postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0 })
  const linkOf = async (apiUrl: string) => {
    const { broker, bridge } = (await (await fetch(`${apiUrl}/health`)).json()) as { broker: string; bridge: string }
    return { broker, bridge }
  }
  /** Device → state, according to the bridge. */
  const devices = async () => {
    const headers = { authorization: `Bearer ${key}` }
    const answer = (await (await fetch(`${world.bridge.httpUrl}/v1/devices`, { headers })).json()) as {
      devices: { id: string; state: string }[]
    }
    return new Map(answer.devices.map(({ id, state }) => [id, state]))
  }

  describe('an agent at a bridge that requires authentication', () => {
    it('reports NOT_AUTHORIZED if it has not enrolled', async () => {
      const refused = await ask(world.agent.apiUrl)
      expect(refused.status).toBe(503)
      expect(await refused.json()).toMatchObject({
        error: { code: 'NOT_AUTHORIZED', message: expect.stringContaining('rejected the login of this device') },
      })
    })

    it('answers after it has enrolled, and finds the bridge by its enrolment', async () => {
      await enrolled('orin')
      const { apiUrl } = await world.startAgent({ id: 'orin', bridges: undefined })
      expect((await ask(apiUrl)).status).toBe(200)
      expect(await linkOf(apiUrl)).toEqual({ broker: 'connected', bridge: 'connected' })
    })

    it('answers although its clock is in 1970, and reports that', async () => {
      await enrolled('no-rtc')
      vi.useFakeTimers({ toFake: ['Date'], now: 0 })
      const { apiUrl } = await world.startAgent({ id: 'no-rtc', bridges: undefined })
      const answered = await ask(apiUrl)
      const health = await (await fetch(`${apiUrl}/health`)).json()
      vi.useRealTimers()
      expect(answered.status).toBe(200)
      expect(health).toMatchObject({ clockIsSet: false })
    })

    it('is disconnected within 5 s of its revocation, and reports why', async () => {
      await enrolled('stolen')
      const { apiUrl } = await world.startAgent({ id: 'stolen', bridges: undefined })
      expect((await ask(apiUrl)).status).toBe(200)
      store.revoke('operator:test', 'stolen')
      await expect.poll(() => linkOf(apiUrl)).toEqual({ broker: 'unreachable', bridge: 'unreachable' })
      const code = async () => ((await (await ask(apiUrl)).json()) as { error?: { code: string } }).error?.code
      await expect.poll(code).toBe('NOT_AUTHORIZED')
      store.approve('operator:test', 'stolen')
      await expect.poll(async () => (await ask(apiUrl)).status).toBe(200)
    })

    it('loses its connection and its grant when a device with another key replaces it', async () => {
      const { mqttUrl, dataUrl } = world.bridge
      const stolen = await (await enrolled('twin')).mqttPassword()
      const login = { username: 'device-twin', password: stolen }
      const client = await mqttClient(mqttUrl, 'device-twin', login)
      const cut = closed(client)
      store.revoke('operator:test', 'twin')
      const replacement = await (await enrolled('twin', 'twin-2')).token()
      await cut
      await expect(mqttClient(mqttUrl, 'device-twin', login)).rejects.toThrow(/not authorized/i)
      await expect(connectDevice(dataUrl, 'twin', width, stolen)).rejects.toThrow('401')
      await using own = await connectDevice(dataUrl, 'twin', width, replacement)
      await expect.poll(() => own.messages.map(({ type }) => type)).toEqual(['welcome'])
    })

    it('does not start with the state folder of another device', async () => {
      await enrolled('first')
      const start = world.startAgent({ id: 'second', stateDir: join(world.dir, 'first'), bridges: undefined })
      await expect(start).rejects.toMatchObject({ code: 'IDENTITY_INVALID', message: expect.stringContaining('"first"') })
    })
  })

  describe('the control plane', () => {
    it('accepts a client only with its own token', async () => {
      const { mqttUrl } = world.bridge
      const password = await (await enrolled('a')).mqttPassword()
      await expect(mqttClient(mqttUrl, 'device-a')).rejects.toThrow(refused)
      await expect(mqttClient(mqttUrl, 'device-a', { username: 'device-a', password: 'guess' })).rejects.toThrow(refused)
      for (const id of broker?.bindsIds ? ['device-b', 'bridge-bridge-1', 'watcher'] : [])
        await expect(mqttClient(mqttUrl, id, { username: id, password })).rejects.toThrow(refused)
      const client = await mqttClient(mqttUrl, 'device-a', { username: 'device-a', password })
      await client.endAsync()
    })

    it('denies a device the topics of others: publishing, subscribing, and in its will', async () => {
      const { mqttUrl } = world.bridge
      const password = await (await enrolled('nosy')).mqttPassword()
      const login = { username: 'device-nosy', password }
      const will = { topic: state('victim'), payload: Buffer.from(readyState), qos: 1, retain: true } as const
      // A broker may reject the connection, or accept it and not publish the will.
      const withWill = await mqttClient(mqttUrl, 'device-nosy', { ...login, will }).catch(() => undefined)
      if (withWill) powerCut(withWill)
      const client = await mqttClient(mqttUrl, 'device-nosy', login)
      const own = ['jobs', 'commands', 'acks', 'state'].map((leaf) => `brim/v1/default/device/nosy/${leaf}`)
      const qos = broker!.qos
      const granted = await client.subscribeAsync([...own, 'brim/v1/default/bridge/+/state'], { qos })
      expect(granted.map((grant) => grant.qos)).toEqual([qos, qos, qos, qos, qos])
      for (const filter of [
        '#',
        'brim/#',
        '$SYS/#',
        'brim/v1/default/device/+/state',
        state('victim'),
        'brim/v1/default/bridge/#',
      ])
        await expect(client.subscribeAsync(filter)).rejects.toThrow()
      client.publish(state('victim'), readyState, { qos: 1, retain: true }, () => {})
      await client.endAsync(true)
      const honest = await mqttClient(mqttUrl, 'device-nosy', login)
      await honest.publishAsync(state('nosy'), readyState, { qos: 1, retain: true })
      await expect.poll(async () => [...(await devices()).keys()]).toContain('nosy')
      expect([...(await devices()).keys()]).not.toContain('victim')
      await honest.endAsync()
    })

    it('keeps a device connected while its grant is renewed, and disconnects it within 5 s of its revocation', async () => {
      const { mqttUrl } = world.bridge
      const device = await enrolled('renewing')
      const login = { username: 'device-renewing', password: await device.mqttPassword() }
      const lost = Buffer.from(readyState.replace('ready', 'lost'))
      const will = { topic: state('renewing'), payload: lost, qos: 1, retain: true } as const
      const client = await mqttClient(mqttUrl, 'device-renewing', { ...login, will })
      const cut = closed(client)
      await client.publishAsync(state('renewing'), readyState, { qos: 1, retain: true })
      for (let renewal = 0; renewal < 3; renewal++) await device.token()
      await expect.poll(async () => (await devices()).get('renewing')).toBe('ready')
      expect(client.connected).toBe(true)
      const startedMs = performance.now()
      store.revoke('operator:test', 'renewing')
      await cut
      expect(performance.now() - startedMs).toBeLessThan(5_000)
      await expect(mqttClient(mqttUrl, 'device-renewing', login)).rejects.toThrow(refused)
      await expect.poll(async () => (await devices()).get('renewing')).toBe('lost')
    })
  })
})
