import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MqttClient } from 'mqtt'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type BrokerLogin, readAdmin } from '../../../cloud-bridge/broker/broker-secrets.ts'
import { connectDynamicSecurity } from '../../../cloud-bridge/broker/dynamic-security.ts'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { startMosquitto as startGuardedMosquitto } from '../../../lab/cluster/mosquitto.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { closed, mosquittoMissing, mqttClient, startMosquitto, watchTopic } from '../../support/broker.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { startHomeAssistant } from '../../support/home-assistant.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

let dir: TempDir
beforeAll(() => {
  dir = tempDir()
})
afterAll(() => dir[Symbol.dispose]())

let folders = 0
const newFolder = () => join(dir.path, `bridge-${folders++}`)
const startBridge = (stateDir: string, settings: Partial<BridgeSettings> = {}) =>
  startTestBridge({ upstream: { url: 'http://127.0.0.1:1', model: 'm' }, homeAssistant: true, stateDir, ...settings })

const at = '2026-05-04T09:30:00.125Z'
const battery = { levelPercent: 71, state: 'discharging', powerW: 4, tempC: 30, isPlugged: false }

/** A device that says what it is told to, with a will. */
async function connectDevice(url: string, id: string, login: { username?: string; password?: string } = {}) {
  const topic = (leaf: 'state' | 'telemetry') => deviceTopic('default', id, leaf)
  const state = (word: string) => JSON.stringify({ v: 1, state: word, birth: 1, at, agent: '0.3.0' })
  const will = { topic: topic('state'), payload: Buffer.from(state('lost')), qos: 1, retain: true } as const
  const client: MqttClient = await mqttClient(url, `device-${id}`, { ...login, will })
  const publish = {
    state: (word: string) => client.publishAsync(topic('state'), state(word), { qos: 1, retain: true }),
    telemetry: (fields: object) =>
      client.publishAsync(topic('telemetry'), JSON.stringify({ v: 1, at, birth: 1, speed: {}, ...fields }), { qos: 1 }),
  }
  await publish.state('ready')
  return { ...publish, client, die: () => client.stream.destroy(), [Symbol.asyncDispose]: () => client.endAsync(true) }
}

const brokers = [
  { name: "the bridge's own broker", missing: () => false, open: async () => undefined },
  { name: 'mosquitto', missing: mosquittoMissing, open: startMosquitto },
]

describe.each(brokers)('Home Assistant at $name', ({ missing, open }) => {
  const world = async (stateDir: string, settings: Partial<BridgeSettings> = {}) => {
    const broker = await open()
    const bridge = await startBridge(stateDir, { ...(broker ? { broker: { url: broker.url } } : {}), ...settings })
    return {
      broker,
      bridge,
      async [Symbol.asyncDispose]() {
        await bridge.close()
        await broker?.[Symbol.asyncDispose]()
      },
    }
  }

  it.skipIf(missing())('shows what a device has, whenever the two connect, and nothing that it has not', async () => {
    await using here = await world(newFolder())
    const { mqttUrl } = here.bridge
    await using early = await startHomeAssistant(mqttUrl)
    await using device = await connectDevice(mqttUrl, 'phone-1')
    await device.telemetry({ battery, temperatures: { hottestC: 41.5, zonesC: {} }, link: null })
    await expect.poll(() => early.entities.size).toBe(12)
    await using late = await startHomeAssistant(mqttUrl)
    await expect.poll(() => late.entities.size).toBe(12)
    for (const home of [early, late]) {
      expect(home.rejected).toEqual([])
      expect([...home.entities.values()].filter(({ device: of }) => of.name !== 'phone-1')).toEqual([])
      await expect.poll(() => home.state('brim_default_phone-1_battery')).toBe('71')
      expect(home.state('brim_default_phone-1_temperature')).toBe('41.5')
      expect(home.state('brim_default_phone-1_state')).toBe('ready')
      expect(home.state('brim_default_phone-1_problem')).toBe('OFF')
      expect(home.state('brim_default_phone-1_problems')).toBe('none')
      expect(home.state('brim_default_phone-1_drain')).toBe('OFF')
    }
    expect([...late.entities.keys()].filter((topic) => /gpu|power|throttled/.test(topic))).toEqual([])
    await device.telemetry({ battery: { ...battery, levelPercent: 12 }, throttling: { isThrottled: true, causes: ['heat'] } })
    await expect.poll(() => early.state('brim_default_phone-1_problems')).toBe('throttled, battery')
    expect(early.state('brim_default_phone-1_problem')).toBe('ON')
    await expect.poll(() => early.state('brim_default_phone-1_throttled')).toBe('ON')
  })

  it.skipIf(missing())('shows a device as unavailable that is lost, but that it is lost', async () => {
    await using here = await world(newFolder())
    await using home = await startHomeAssistant(here.bridge.mqttUrl)
    const device = await connectDevice(here.bridge.mqttUrl, 'a')
    await expect.poll(() => home.entities.size).toBe(10)
    await expect.poll(() => home.state('brim_default_a_jobs')).toBe('0')
    device.die()
    await expect.poll(() => home.state('brim_default_a_jobs')).toBe('unavailable')
    await expect.poll(() => home.state('brim_default_a_problems')).toBe('lost')
    expect(home.state('brim_default_a_state')).toBe('lost')
  })

  it.skipIf(missing())('loses the entities of a device that is removed', async () => {
    await using here = await world(newFolder())
    await using home = await startHomeAssistant(here.bridge.mqttUrl)
    await using staying = await connectDevice(here.bridge.mqttUrl, 'stays')
    const device = await connectDevice(here.bridge.mqttUrl, 'goes')
    await expect.poll(() => home.entities.size).toBe(20)
    await device.state('disconnected')
    await device.client.endAsync()
    await expect.poll(() => home.state('brim_default_goes_state')).toBe('disconnected')
    const removed = await fetch(`${here.bridge.httpUrl}/v1/devices/goes/remove`, { method: 'POST', body: '{}' })
    expect(removed.status).toBe(200)
    await expect.poll(() => home.entities.size).toBe(10)
    await staying.state('ready')
    expect(home.find('brim_default_stays_state').device.name).toBe('stays')
  })
})

describe('the option --home-assistant', () => {
  it.skipIf(mosquittoMissing())('leaves nothing at a broker once it is turned off', async () => {
    const stateDir = newFolder()
    await using broker = await startMosquitto()
    const settings = { broker: { url: broker.url } }
    const first = await startBridge(stateDir, settings)
    await using device = await connectDevice(broker.url, 'a')
    await using home = await startHomeAssistant(broker.url)
    await expect.poll(() => home.entities.size).toBe(10)
    await first.close()
    const second = await startBridge(stateDir, { ...settings, homeAssistant: false })
    await device.state('ready')
    await expect.poll(() => home.entities.size).toBe(0)
    await using late = await watchTopic(broker.url, '#')
    await expect.poll(() => late.messages.some(({ topic }) => topic.endsWith('device/a/state'))).toBe(true)
    expect(late.messages.filter(({ topic }) => /^homeassistant|\/home\//.test(topic))).toEqual([])
    await second.close()
  })

  it('tells a Home Assistant that comes back to the own broker after the option was turned off', async () => {
    const stateDir = newFolder()
    const first = await startBridge(stateDir)
    const before = await startHomeAssistant(first.mqttUrl)
    const device = await connectDevice(first.mqttUrl, 'a')
    await expect.poll(() => before.entities.size).toBe(10)
    const topics = [...before.entities.keys()]
    await first.close()
    device.die()
    for (const start of [1, 2]) {
      await using second: TestBridge = await startBridge(stateDir, { homeAssistant: false })
      await using watcher = await watchTopic(second.mqttUrl, 'homeassistant/#')
      await using _home = await startHomeAssistant(second.mqttUrl)
      const cleared = () => watcher.messages.filter(({ text }) => text === '').map(({ topic }) => topic)
      if (start === 1) await expect.poll(() => topics.every((topic) => cleared().includes(topic))).toBe(true)
      await expect.poll(() => watcher.messages.some(({ text }) => text === 'online')).toBe(true)
      // What Home Assistant has been told once is forgotten.
      if (start === 2) expect(cleared()).toEqual([])
    }
  })

  it('describes a real agent by its deltas, and drains it by its switch', async () => {
    using emulated = fixtureHost('agx-orin-jp6')
    await using world = await startAgentWorld({ adapter: false, bridge: { homeAssistant: true } })
    await world.startAgent({ id: 'orin', telemetryS: 1 }, undefined, emulated.host)
    await using home = await startHomeAssistant(world.bridge.mqttUrl)
    const id = (name: string) => `brim_default_orin_${name}`
    await expect.poll(() => home.entities.size).toBeGreaterThan(20)
    expect(home.rejected).toEqual([])
    await expect.poll(() => Number(home.state(id('power')))).toBeGreaterThan(0)
    await expect.poll(() => home.state(id('provider'))).toBe('cpu')
    expect(home.find(id('power')).device.model).toMatch(/Orin/)
    await home.turn(id('drain'), 'on')
    await expect.poll(() => home.state(id('drain'))).toBe('ON')
    expect(home.state('brim_default_jetson-01_drain')).toBe('OFF')
    const shown = (await (await fetch(`${world.bridge.httpUrl}/v1/devices/orin`)).json()) as { commands: object[] }
    expect(shown.commands).toMatchObject([{ actor: 'home-assistant', wish: { type: 'drain' }, state: 'DONE' }])
    await home.turn(id('drain'), 'off')
    await expect.poll(() => home.state(id('drain'))).toBe('OFF')
  })
})

describe('access of Home Assistant where proof is required', () => {
  it('is that of its key: a viewer sees, an operator also drains, and neither publishes anything else', async () => {
    const stateDir = newFolder()
    await using bridge = await startBridge(stateDir, { auth: true })
    const store = openIdentityStore(stateDir)
    const [viewer, operator] = (['viewer', 'operator'] as const).map((role) => ({
      username: role,
      password: store.createKey('operator:test', role, role).key,
    }))
    store.close()
    await expect(startHomeAssistant(bridge.mqttUrl)).rejects.toThrow(/not authorized/i)
    await using _home = await startHomeAssistant(bridge.mqttUrl, viewer)
    const topic = 'brim/v1/default/bridge/bridge-1/drain/a'
    const rights = [
      { login: viewer, on: 'homeassistant/status', retain: false, isAllowed: true },
      { login: viewer, on: topic, retain: false, isAllowed: false },
      { login: operator, on: topic, retain: false, isAllowed: true },
      { login: operator, on: topic, retain: true, isAllowed: false },
      { login: operator, on: 'homeassistant/status', retain: true, isAllowed: false },
      { login: operator, on: 'homeassistant/sensor/brim_default_bridge-1/a_state/config', retain: true, isAllowed: false },
      { login: operator, on: 'brim/v1/default/bridge/bridge-1/home/a', retain: false, isAllowed: false },
    ]
    for (const { login, on, retain, isAllowed } of rights) {
      const client = await mqttClient(bridge.mqttUrl, `c-${Math.random()}`, login)
      const cut = closed(client).then(() => false)
      client.on('error', () => {})
      const done = client.publishAsync(on, '{"v":1,"type":"drain"}', { qos: 1, retain }).then(
        () => true,
        () => false,
      )
      expect(await Promise.race([done, cut]), `${login?.username} on ${on}`).toBe(isAllowed)
      await client.endAsync(true)
    }
  })

  it.skipIf(mosquittoMissing())('at a mosquitto that the bridge drives needs the rules of docs/home-assistant.md', async () => {
    await using mosquitto = await startGuardedMosquitto({ guarded: true })
    const adminFile = mosquitto.adminFile!
    const security = await connectDynamicSecurity({
      url: mosquitto.url,
      clientId: 'test-admin',
      admin: readAdmin(adminFile) as BrokerLogin,
      onReconnect: () => {},
      clock: systemClock,
      logger: silentLogger(),
    })
    const page = readFileSync(new URL('../../../docs/home-assistant.md', import.meta.url), 'utf8')
    const acls = [...page.matchAll(/addRoleACL home (\w+) '?([^' ]+)'? allow/g)].map(([, acltype, topic]) => ({
      acltype,
      topic,
      allow: true,
    }))
    expect(acls).toHaveLength(4)
    const login = { username: 'home', password: 'for-tests-on-loopback' }
    await security.run([
      { command: 'createRole', rolename: 'home', acls },
      { command: 'createClient', ...login, roles: [{ rolename: 'home' }] },
    ])
    const broker = { url: mosquitto.url, adminFile }
    await using world = await startAgentWorld({ adapter: false, bridge: { homeAssistant: true, broker } })
    await using home = await startHomeAssistant(mosquitto.url, login)
    const store = openIdentityStore(join(world.dir, 'bridge'))
    await enrolDevice(world, store, 'orin')
    store.close()
    await world.startAgent({ id: 'orin' })
    await expect.poll(() => [...home.entities.values()].some(({ device }) => device.name === 'orin')).toBe(true)
    await expect.poll(() => home.state('brim_default_orin_drain')).toBe('OFF')
    await home.turn('brim_default_orin_drain', 'on')
    await expect.poll(() => home.state('brim_default_orin_drain')).toBe('ON')
    await security.close()
  })
})
