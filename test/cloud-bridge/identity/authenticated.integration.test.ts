import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { WebSocket } from 'ws'
import { requiresAuth } from '../../../cloud-bridge/identity/exposure.ts'
import { type IdentityStore, openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { healthOf, startTestBridge } from '../../support/bridge.ts'
import { brim as execute } from '../../support/brim.ts'
import { mqttClient } from '../../support/broker.ts'
import { captureIo } from '../../support/captured-io.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { postJson } from '../../support/post-json.ts'
import { randomStates } from '../../support/random-states.ts'
import { shared } from '../../support/shared.ts'
import { connectDevice } from '../../support/test-device.ts'

const world = shared(() => startAgentWorld({ bridge: { auth: true, trustedProxies: ['127.0.0.1'] } }))
/** The bridge's store, opened a second time as an operator's commands do. */
let store: IdentityStore
let width: number
beforeAll(async () => {
  store = openIdentityStore(join(world.dir, 'bridge'))
  width = (await readManifest(world.bundle)).dims.hidden
})
afterAll(() => store.close())

const enrolled = (device: string) => enrolDevice(world, store, device)

describe('the data plane', () => {
  it('rejects a connection without a token, and a device under the name of another', async () => {
    const { dataUrl } = world.bridge
    const token = await (await enrolled('b')).token()
    await expect(connectDevice(dataUrl, 'b', width)).rejects.toThrow(/401/)
    await expect(connectDevice(dataUrl, 'b', width, 'guess')).rejects.toThrow(/401/)
    await using imposter = await connectDevice(dataUrl, 'c', width, token)
    expect(await imposter.closed).toEqual({ code: 4401, reason: 'NOT_AUTHORIZED' })
    await using device = await connectDevice(dataUrl, 'b', width, token)
    await using neighbour = await connectDevice(dataUrl, 'e', width, await (await enrolled('e')).token())
    for (const one of [device, neighbour]) {
      const session = await one.open(world.bridge.modelId)
      await one.rows(session, { base: 0, states: randomStates(8, width, 1) })
      one.sendMessage({ type: 'close', session: session.hex, keep: 8 })
      await expect.poll(() => one.messages.some(({ type }) => type === 'kept')).toBe(true)
    }
    const keptKvBytes = async () => (await healthOf(world.bridge)).keptKvBytes
    const both = await keptKvBytes()
    expect(both).toBeGreaterThan(0)
    const socket: WebSocket = device.socket
    expect(socket.readyState).toBe(socket.OPEN)
    store.revoke('operator:test', 'b')
    expect(await device.closed).toEqual({ code: 4401, reason: 'NOT_AUTHORIZED' })
    expect(await keptKvBytes()).toBe(both / 2)
    await expect(connectDevice(dataUrl, 'b', width, token)).rejects.toThrow(/401/)
  })
})

describe('HTTP', () => {
  it('serves /health without a key, and devices only with one', async () => {
    const { httpUrl } = world.bridge
    const authorization = `Bearer ${await (await enrolled('d')).token()}`
    expect((await fetch(`${httpUrl}/health`)).status).toBe(200)
    for (const headers of [{}, { authorization: 'Bearer guess' }, { authorization }])
      expect((await fetch(`${httpUrl}/v1/devices`, { headers })).status).toBe(401)
  })
})

describe('a key', () => {
  it('of a viewer reads until it is revoked, one of an operator submits jobs too, and changes are audited', async () => {
    const { httpUrl, mqttUrl, dataUrl } = world.bridge
    const brim = async (...argv: string[]) => {
      const { io, out } = captureIo()
      await execute(['bridge', 'key', ...argv, '--json', '--state-dir', join(world.dir, 'bridge')], io)
      return JSON.parse(out()) as { id: string; key: string }
    }
    const { id, key } = await brim('create', '--name', 'monitoring')
    const operator = await brim('create', '--name', 'ci', '--role', 'operator')
    const read = () => fetch(`${httpUrl}/v1/devices`, { headers: { authorization: `Bearer ${key}` } })
    expect((await read()).status).toBe(200)
    const jobs = (bearer: string) => fetch(`${httpUrl}/v1/jobs`, { headers: { authorization: `Bearer ${bearer}` } })
    const submit = (bearer?: string) =>
      postJson(
        `${httpUrl}/v1/jobs`,
        { kind: 'slm.generate', input: { messages: [{ role: 'user', content: 'hello' }] } },
        { 'x-forwarded-for': '192.0.2.7', ...(bearer ? { authorization: `Bearer ${bearer}` } : {}) },
      )
    expect([(await jobs(key)).status, (await submit(key)).status, (await submit()).status]).toEqual([403, 403, 401])
    expect([(await jobs(operator.key)).status, (await submit(operator.key)).ok]).toEqual([200, true])
    const post = (bearer: string, what: string) =>
      postJson(`${httpUrl}/v1/devices/no-such-device/${what}`, what === 'labels' ? { unset: ['site'] } : { type: 'drain' }, {
        authorization: `Bearer ${bearer}`,
      })
    for (const what of ['labels', 'commands'])
      expect([(await post(key, what)).status, (await post(operator.key, what)).status]).toEqual([403, 404])
    const login = { username: 'viewer-monitoring', password: key }
    await expect(mqttClient(mqttUrl, 'device-monitoring', login)).rejects.toThrow(/not authorized/i)
    await using device = await connectDevice(dataUrl, 'monitoring', width, key)
    expect(await device.closed).toMatchObject({ code: 4401 })
    const listed = {
      keys: expect.arrayContaining([expect.objectContaining({ id, name: 'monitoring', role: 'viewer', revokedAt: null })]),
    }
    expect(await brim('list')).toMatchObject(listed)
    await brim('revoke', id)
    expect((await read()).status).toBe(401)
    const isSubmission = ({ action }: { action: string }) => action === 'job.submit'
    expect(store.audit(20).find(isSubmission)).toMatchObject({ from: '192.0.2.7' })
    const actions = () => store.audit(20).map(({ action, outcome }) => `${action} ${outcome}`)
    const forbidden = ['labels', 'commands'].map((what) => `POST /v1/devices/:id/${what} refused`)
    const refusals = forbidden.flatMap((line) => [line, line]).reverse()
    const written = ['key.revoke ok', ...refusals, 'job.submit ok', 'POST /v1/jobs refused', 'key.create ok', 'key.create ok']
    await expect.poll(() => actions().slice(0, written.length)).toEqual(written)
    await expect(brim('revoke', 'ffffffff')).rejects.toMatchObject({ code: 'IDENTITY_UNKNOWN' })
  })
})

describe('a bridge without authentication', () => {
  it.each([
    { auth: undefined, behaviour: 'requires a proof, from earlier connections too,' },
    { auth: false, behaviour: 'accepts new connections without a proof, as configured,' },
  ])('$behaviour after the first enrolment', async ({ auth }) => {
    const stateDir = join(world.dir, `open-${auth}`)
    const bridge = await startTestBridge({ bundle: world.bundle, stateDir, ...(auth === undefined ? {} : { auth }) })
    const own = openIdentityStore(stateDir)
    try {
      const early = await mqttClient(bridge.mqttUrl, 'device-early')
      const statuses = async () => (await fetch(`${bridge.httpUrl}/v1/devices`)).status
      expect([bridge.auth, await statuses()]).toEqual([false, 200])
      const first = await enrolDevice({ dir: stateDir, bridge }, own, 'first')
      const requiresProof = auth === undefined
      expect([bridge.auth, await statuses()]).toEqual([requiresProof, requiresProof ? 401 : 200])
      const late = mqttClient(bridge.mqttUrl, 'device-late')
      if (requiresProof) await expect(late).rejects.toThrow(/not authorized/i)
      else await (await late).endAsync()
      const password = await first.mqttPassword()
      await (await mqttClient(bridge.mqttUrl, 'device-first', { username: 'device-first', password })).endAsync()
      await expect.poll(() => early.connected).toBe(!requiresProof)
      await early.endAsync()
    } finally {
      own.close()
      await bridge.close()
    }
  })
})

describe('the address that a bridge listens on', () => {
  const base = { host: '10.0.0.1', plaintext: true, enrolled: false }

  it('requires authentication beyond loopback, and once a device has enrolled', () => {
    expect(requiresAuth({ ...base, host: '127.0.0.1' })).toBe(false)
    expect(requiresAuth({ ...base, host: '127.0.0.1', enrolled: true })).toBe(true)
    expect(requiresAuth({ ...base, host: '127.0.0.1', enrolled: true, auth: false })).toBe(false)
    expect(requiresAuth({ ...base, host: '::1', auth: true })).toBe(true)
    expect(requiresAuth({ ...base, host: '127.0.0.1', trustedProxies: ['127.0.0.1'] })).toBe(true)
    expect(requiresAuth({ ...base, host: '127.0.0.1', dataUrl: 'wss://bridge.example/v1/data' })).toBe(true)
    expect(requiresAuth({ ...base, host: '127.0.0.1', dataUrl: 'wss://bridge.example/v1/data', auth: false })).toBe(false)
    expect(requiresAuth(base)).toBe(true)
    expect(requiresAuth({ ...base, host: '0.0.0.0', dataUrl: 'ws://10.0.0.1:7070/v1/data' })).toBe(true)
  })

  it.each([
    [{ ...base, auth: false }, 'LISTEN_REFUSED', /without authentication/],
    [{ ...base, host: '127.0.0.1', trustedProxies: ['::1'], auth: false }, 'LISTEN_REFUSED', /behind a proxy/],
    [{ ...base, plaintext: false }, 'LISTEN_REFUSED', /plain text/],
    [{ ...base, host: '0.0.0.0' }, 'CONFIG_INVALID', /devices cannot connect/],
  ])('refuses %j', (exposure, code, message) => {
    expect(() => requiresAuth(exposure)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }))
  })
})
