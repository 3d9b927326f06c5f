import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openBridgeKey } from '../../../agent/identity/bridge-key.ts'
import { createCredentials } from '../../../agent/identity/credentials.ts'
import { readEnrolments } from '../../../agent/identity/enrolment.ts'
import { type BrokerLogin, readAdmin } from '../../../cloud-bridge/broker/broker-secrets.ts'
import { driveMosquitto } from '../../../cloud-bridge/broker/driven-mosquitto.ts'
import { driveNats } from '../../../cloud-bridge/broker/driven-nats.ts'
import { connectDynamicSecurity } from '../../../cloud-bridge/broker/dynamic-security.ts'
import type { NatsAdmin } from '../../../cloud-bridge/broker/nats-admin.ts'
import { requiresAuth } from '../../../cloud-bridge/identity/exposure.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { type Mosquitto, startMosquitto } from '../../../lab/cluster/mosquitto.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { brim } from '../../support/brim.ts'
import {
  closed,
  mosquittoMissing,
  mqttClient,
  natsMissing,
  startBroker,
  startMosquitto as startOpenMosquitto,
  watchTopic,
} from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { type Nats, startNats } from '../../support/nats.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const missing = mosquittoMissing()
const stateOf = (device: string) => `brim/v1/default/device/${device}/state`
let dir: TempDir
beforeAll(() => {
  dir = tempDir()
})
afterAll(() => dir[Symbol.dispose]())

describe('an external broker without authentication', () => {
  it.skipIf(missing)('connects agents and bridge, also after it was killed and restarted', async () => {
    await using broker = await startOpenMosquitto()
    await using world = await startAgentWorld({ bridge: { broker: { url: broker.url } } })
    expect(world.bridge).toMatchObject({ mqttUrl: broker.url, auth: false })
    const health = async () => (await fetch(`${world.agent.apiUrl}/health`)).json()
    const both = { broker: 'connected', bridge: 'connected' }
    await expect.poll(health).toMatchObject(both)
    await broker.restart()
    await using watcher = await watchTopic(broker.url, '#')
    const states = () => new Set(watcher.messages.map(({ topic, text }) => `${topic} ${JSON.parse(text).state}`))
    const ready = [`${stateOf('jetson-01')} ready`, 'brim/v1/default/bridge/bridge-1/state ready']
    await expect.poll(() => ready.every((one) => states().has(one))).toBe(true)
    await expect.poll(health).toMatchObject(both)
  })

  it('is every address that enrolling devices receive, where it has several nodes', async () => {
    await using broker = await startBroker()
    const url = `${broker.url},${broker.url.replace('127.0.0.1', 'localhost')}`
    await using world = await startAgentWorld({ bridge: { broker: { url }, auth: false } })
    const store = openIdentityStore(join(world.dir, 'bridge'))
    await enrolDevice(world, store, 'orin')
    store.close()
    expect(readEnrolments(join(world.dir, 'orin'))).toMatchObject([{ mqttUrl: url, foreignBroker: true }])
    const { apiUrl } = await world.startAgent({ id: 'orin', bridges: undefined })
    const health = async () => (await fetch(`${apiUrl}/health`)).json()
    await expect.poll(health).toMatchObject({ broker: 'connected', bridge: 'connected' })
  })

  it.skipIf(missing)('is the address that enrolling devices receive, whatever certificate it shows', async () => {
    await using broker = await startOpenMosquitto()
    await using world = await startAgentWorld({ bridge: { broker: { url: broker.url }, auth: false } })
    const store = openIdentityStore(join(world.dir, 'bridge'))
    const { enrolment } = await enrolDevice(world, store, 'orin')
    const stateDir = join(world.dir, 'orin')
    expect(readEnrolments(stateDir)).toMatchObject([{ mqttUrl: broker.url, foreignBroker: true, url: world.bridge.httpUrl }])
    // As enrolled before its bridge used this broker.
    const before = [{ ...enrolment, mqttUrl: 'mqtt://127.0.0.1:1', foreignBroker: false }]
    writeFileSync(join(stateDir, 'identity', 'enrolments.json'), JSON.stringify(before), { mode: 0o600 })
    await enrolDevice(world, store, 'orin')
    expect(readEnrolments(stateDir)).toMatchObject([{ mqttUrl: broker.url }])
    store.close()
    const key = openBridgeKey(stateDir, enrolment.url)
    const pinned = { ...enrolment, pin: 'of the bridge' }
    const credentials = createCredentials({ enrolment: pinned, key, clock: systemClock, logger: silentLogger() })
    const signal = new AbortController().signal
    expect(await credentials.dial('mqtts://broker.example:8883', signal)).toBeUndefined()
    await expect(credentials.dial('wss://127.0.0.1:1', signal)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    credentials.close()
  })
})

describe('a mosquitto that a bridge drives', () => {
  const idle = { fleet: 'default', bridge: 'bridge-1', lastState: () => undefined, clock: systemClock, logger: silentLogger() }
  const drive = (mosquitto: Mosquitto, options: Partial<Parameters<typeof driveMosquitto>[0]> = {}) =>
    driveMosquitto({ ...idle, url: mosquitto.url, admin: readAdmin(mosquitto.adminFile ?? '') as BrokerLogin, ...options })
  const administer = (mosquitto: Mosquitto) =>
    connectDynamicSecurity({
      url: mosquitto.url,
      clientId: 'test-admin',
      admin: readAdmin(mosquitto.adminFile ?? '') as BrokerLogin,
      onReconnect: () => {},
      clock: systemClock,
      logger: silentLogger(),
    })

  it.skipIf(missing)('rejects devices of an earlier start of the bridge, and retains their state as lost', async () => {
    await using mosquitto = await startMosquitto({ guarded: true })
    const before = await drive(mosquitto)
    const login = { username: 'device-a', password: (await before.admit('a'))!.password }
    const device = await mqttClient(mosquitto.url, 'device-a', login)
    const cut = closed(device)
    await device.publishAsync(stateOf('a'), 'ready', { qos: 1, retain: true })
    // As after SIGKILL: the bridge has withdrawn no grant.
    await before.close()
    const after = await drive(mosquitto, { lastState: () => ({ state: 'ready', birth: 4 }) })
    await cut
    await expect(mqttClient(mosquitto.url, 'device-a', login)).rejects.toThrow(/not authorized/i)
    await using watcher = await watchTopic(mosquitto.url, stateOf('a'), {
      username: 'bridge-bridge-1',
      password: after.login!.password,
    })
    await expect.poll(() => watcher.messages.map(({ text }) => JSON.parse(text))).toMatchObject([{ state: 'lost', birth: 4 }])
    await after.close()
  })

  it.skipIf(missing)(
    'is given bridge and devices again after it has lost them, without devices whose grant has ended',
    async () => {
      await using mosquitto = await startMosquitto({ guarded: true })
      const broker = await drive(mosquitto)
      const password = (await broker.admit('a'))!.password
      const gone = (await broker.admit('gone'))!.password
      const security = await administer(mosquitto)
      for (const username of ['device-a', 'bridge-bridge-1']) await security.run([{ command: 'deleteClient', username }])
      await security.close()
      // The bridge notices the broker's restart only with the next packet.
      const restarted = mosquitto.restart()
      broker.disconnect('gone')
      await restarted
      const login = async (username: string, secret: string) => {
        const client = await mqttClient(mosquitto.url, username, { username, password: secret })
        await client.endAsync()
        return 'connected'
      }
      await expect.poll(() => login('device-a', password)).toBe('connected')
      await expect.poll(() => login('bridge-bridge-1', broker.login!.password)).toBe('connected')
      await expect.poll(() => login('device-gone', gone).catch(String)).toMatch(/not authorized/i)
      await broker.close()
    },
  )

  it.skipIf(missing)('is given, after an outage, the grants that began and ended meanwhile', async () => {
    await using mosquitto = await startMosquitto({ guarded: true })
    await using relay = await startRelay(portOf(mosquitto.url))
    const broker = await drive(mosquitto, { url: through(relay, mosquitto.url) })
    const login = async (password: string) => {
      const client = await mqttClient(mosquitto.url, 'device-a', { username: 'device-a', password })
      await client.endAsync()
      return 'connected'
    }
    const before = (await broker.admit('a'))!.password
    expect(await login(before)).toBe('connected')
    relay.target = 1
    relay.cut()
    broker.disconnect('a')
    let after = ''
    // Rejected until the bridge has noticed that its broker is unreachable.
    const admit = async () => {
      after = (await broker.admit('a'))!.password
      return 'admitted'
    }
    await expect.poll(() => admit().catch(String)).toBe('admitted')
    relay.target = portOf(mosquitto.url)
    await expect.poll(() => login(after).catch(String)).toBe('connected')
    await expect(login(before)).rejects.toThrow(/not authorized/i)
    await broker.close()
  })

  it.skipIf(missing)('connects its devices again after a restart of the bridge', async () => {
    await using mosquitto = await startMosquitto({ guarded: true })
    const broker = { url: mosquitto.url, adminFile: mosquitto.adminFile }
    await using world = await startAgentWorld({ bridge: { broker } })
    const { bundle, bridge } = world
    const stateDir = join(world.dir, 'bridge')
    const store = openIdentityStore(stateDir)
    await enrolDevice(world, store, 'orin')
    const headers = { authorization: `Bearer ${store.createKey('operator:test', 'test', 'viewer').key}` }
    store.close()
    const { apiUrl } = await world.startAgent({ id: 'orin', bridges: undefined })
    const link = async () => (await fetch(`${apiUrl}/health`)).json()
    await expect.poll(link).toMatchObject({ broker: 'connected', bridge: 'connected' })
    await bridge.close()
    const httpPort = portOf(bridge.httpUrl)
    await using again = await startTestBridge({ bundle, stateDir, broker, httpPort })
    await expect.poll(link).toMatchObject({ broker: 'connected', bridge: 'connected' })
    const devices = async () => (await fetch(`${again.httpUrl}/v1/devices`, { headers })).json()
    const ready = { devices: [{ id: 'orin', state: 'ready' }] }
    await expect.poll(devices).toMatchObject(ready)
  })

  it.skipIf(missing)('is refused when it accepts anonymous clients, or permits by default', async () => {
    await using open = await startOpenMosquitto()
    await expect(drive({ ...open, adminFile: fileOf('admin:secret') })).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
    await using mosquitto = await startMosquitto({ guarded: true })
    const security = await administer(mosquitto)
    const acls = [{ acltype: 'subscribe', allow: true }]
    await security.run([{ command: 'setDefaultACLAccess', acls }])
    await security.close()
    await expect(drive(mosquitto)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      hint: 'mosquitto_ctrl dynsec setDefaultACLAccess subscribe deny',
    })
  })

  it.skipIf(missing)('is named in the error when it is unreachable or rejects its administrator', async () => {
    await using mosquitto = await startMosquitto({ guarded: true })
    const { url } = mosquitto
    const admin = readAdmin(mosquitto.adminFile ?? '') as BrokerLogin
    await expect(drive(mosquitto, { admin: { username: 'brim-admin', password: 'wrong' } })).rejects.toMatchObject({
      code: 'NOT_AUTHORIZED',
      message: expect.stringContaining(url),
    })
    await mosquitto[Symbol.asyncDispose]()
    const unreachable = driveMosquitto({ ...idle, url, admin, connectTimeoutMs: 200 })
    await expect(unreachable).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE', message: expect.stringContaining(url) })
  })
})

describe('a NATS that a bridge drives', () => {
  const drive = (nats: Pick<Nats, 'url' | 'adminFile'>) =>
    driveNats({
      url: nats.url,
      admin: readAdmin(nats.adminFile) as NatsAdmin,
      fleet: 'default',
      bridge: 'bridge-1',
      clock: systemClock,
      logger: silentLogger(),
    })

  it.skipIf(natsMissing())('disconnects and rejects devices of an earlier start of the bridge', async () => {
    await using nats = await startNats(1)
    const before = await drive(nats)
    const login = (await before.admit('a'))!
    const join = ({ clientId = '', password }: typeof login) => mqttClient(nats.url, clientId, { username: 'device-a', password })
    const cut = closed(await join(login))
    await before.close()
    const after = await drive(nats)
    await cut
    await expect(join(login)).rejects.toThrow(/not authorized/i)
    await (await join((await after.admit('a'))!)).endAsync()
    await after.close()
  })

  it.skipIf(natsMissing())('is named in the error when it is unreachable, or has other keys', async () => {
    await using nats = await startNats(1)
    await using other = await startNats(1)
    const { servers } = readAdmin(nats.adminFile) as NatsAdmin
    const foreign = { ...(readAdmin(other.adminFile) as NatsAdmin), servers }
    const message = expect.stringContaining(servers[0]!)
    const adminFile = fileOf(JSON.stringify(foreign))
    await expect(drive({ url: nats.url, adminFile })).rejects.toMatchObject({ code: 'NOT_AUTHORIZED', message })
    await nats[Symbol.asyncDispose]()
    const own = fileOf(JSON.stringify({ ...foreign, servers }))
    await expect(drive({ url: nats.url, adminFile: own })).rejects.toMatchObject({ code: 'BROKER_UNREACHABLE', message })
  })

  it.skipIf(natsMissing())('is refused where a node accepts every client', async () => {
    await using nats = await startNats(1)
    await using open = await startBroker()
    const url = `${nats.url},${open.url}`
    await expect(drive({ ...nats, url })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining(open.url),
    })
  })
})

function fileOf(text: string, mode = 0o600): string {
  const path = join(dir.path, `secret-${Math.random()}`)
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

describe('the file of a secret', () => {
  it('is read only when it is private and holds a name and a password', () => {
    expect(readAdmin(fileOf('admin:se:cret\n'))).toEqual({ username: 'admin', password: 'se:cret' })
    const open = fileOf('admin:secret', 0o640)
    expect(() => readAdmin(open)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', hint: `chmod 600 ${open}` }))
    for (const text of ['secret', '{', '{"servers":[]}'])
      expect(() => readAdmin(fileOf(text))).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
    expect(() => readAdmin(join(dir.path, 'none'))).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
  })
})

describe('the address of an external broker', () => {
  const base = { host: '127.0.0.1', plaintext: false, enrolled: false }
  const [here, there] = ['mqtt://127.0.0.1:1883', 'mqtts://broker.example:8883']

  it('requires authentication when the broker learns the devices from the bridge', () => {
    expect(requiresAuth({ ...base, broker: { url: here } })).toBe(false)
    expect(requiresAuth({ ...base, broker: { url: here, adminFile: 'admin' } })).toBe(true)
    expect(requiresAuth({ ...base, broker: { url: there, hookSecretFile: 'secret' } })).toBe(true)
  })

  it.each([
    [{ broker: { url: here }, auth: true }, 'CONFIG_INVALID', /which devices may connect/],
    [{ broker: { url: here }, enrolled: true }, 'CONFIG_INVALID', /which devices may connect/],
    [{ broker: { url: here, adminFile: 'a' }, auth: false }, 'CONFIG_INVALID', /requires authentication/],
    [{ broker: { url: there } }, 'LISTEN_REFUSED', /without authentication/],
    [{ broker: { url: `${here},${there}` } }, 'LISTEN_REFUSED', /broker.example:8883.*without authentication/],
    [{ broker: { url: 'mqtt://10.0.0.9:1883', adminFile: 'a' } }, 'LISTEN_REFUSED', /plain text/],
    [
      { broker: { url: here, adminFile: 'a' }, host: '10.0.0.1', plaintext: true },
      'CONFIG_INVALID',
      /other machines cannot connect/,
    ],
  ])('refuses %j', (exposure, code, message) => {
    const judge = () => requiresAuth({ ...base, ...exposure })
    expect(judge).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }))
  })

  it.each([
    [['--broker', 'http://127.0.0.1'], /--broker http.* must be a URL/],
    [['--broker', 'mqtt://127.0.0.1,http://127.0.0.1'], /--broker .* must be a URL/],
    [['--broker', 'mqtt://name:secret@127.0.0.1'], /must not contain a name or password/],
    [['--broker-admin-file', 'admin'], /--broker is missing/],
    [['--broker', 'mqtt://127.0.0.1', '--mqtt-port', '1883'], /mutually exclusive/],
  ])('rejects a command line with %j', async (argv, message) => {
    const { io } = captureIo()
    const run = brim(['bridge', 'run', '--bundle', 'none', '--state-dir', dir.path, ...argv], io)
    await expect(run).rejects.toMatchObject({ code: 'USAGE', message: expect.stringMatching(message) })
  })
})
