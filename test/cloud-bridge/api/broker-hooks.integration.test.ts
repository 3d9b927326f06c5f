import { describe, expect, it } from 'vitest'
import { brokerHookRoutes } from '../../../cloud-bridge/api/broker-hooks.ts'
import { createAuthorizer } from '../../../cloud-bridge/identity/authorizer.ts'
import { Quotas } from '../../../cloud-bridge/identity/quotas.ts'
import type { IdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { brokerHookOperations } from '../../../core/wire/protocol/http/broker-hooks.ts'
import { startTestHttp } from '../../support/http.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const secret = 'a-secret-of-the-hook'
const login = (client: string) => ({ username: client, password: `token of ${client}` })
const state = 'brim/v1/default/device/a/state'
const jobs = 'brim/v1/default/device/a/jobs'
const { emqxAuth, emqxAcl, vernemq } = brokerHookOperations

/** A bridge's HTTP server. Device a and the bridge have tokens, and a viewer has a key. */
async function startHook() {
  const known = ['device-a', 'bridge-b', 'viewer-monitoring']
  const gate = {
    authRequired: true,
    subjectOf: (token: string) => known.find((client) => token === `token of ${client}`),
    isPresent: (client: string) => known.includes(client),
  }
  // The hooks check only their secret, not keys in the store.
  const store = {} as IdentityStore
  const [clock, logger] = [systemClock, silentLogger()]
  const authorizer = createAuthorizer({
    gate,
    store,
    quotas: new Quotas(store, { keyRequestsPerMinute: 6_000, deviceAnswersPerMinute: 120 }, clock, Date.now),
    hookSecret: secret,
    clock,
    logger,
  })
  const http = await startTestHttp([brokerHookRoutes({ fleet: 'default', gate })], { authorizer })
  const post = async (path: string, body: object, headers: Record<string, string>) => {
    const response = await http.post(path, body, headers)
    return { status: response.status, body: (await response.json()) as { result: unknown } }
  }
  const bearer = { authorization: `Bearer ${secret}` }
  return {
    post,
    emqx: async (path: string, body: object) => (await post(path, body, bearer)).body.result,
    verne: async (hook: string, body: object) =>
      (await post(`${vernemq.path}?secret=${secret}`, body, { 'vernemq-hook': hook })).body,
    async [Symbol.asyncDispose]() {
      authorizer.close()
      await http.close()
    },
  }
}

describe('the hook for EMQX', () => {
  it.each([
    ['device-a', login('device-a'), 'allow'],
    ['device-a', { ...login('device-a'), password: 'guess' }, 'deny'],
    ['device-b', login('device-a'), 'deny'],
    ['device-a', { username: 'device-b', password: 'token of device-a' }, 'deny'],
    ['device-a', {}, 'deny'],
    ['device-a', { username: null, password: null }, 'deny'],
    ['bridge-b', login('bridge-b'), 'allow'],
    // The bridge takes over a device's client id to end its connection.
    ['device-a', login('bridge-b'), 'allow'],
    ['bridge-c', login('bridge-b'), 'deny'],
    ['viewer-monitoring', login('viewer-monitoring'), 'deny'],
  ])('answers %s with login %j: %s', async (clientid, credentials, result) => {
    await using hook = await startHook()
    expect(await hook.emqx(emqxAuth.path, { clientid, ...credentials })).toBe(result)
  })

  it.each([
    ['device-a', 'device-a', 'publish', state, 'allow'],
    ['device-a', 'device-a', 'publish', jobs, 'deny'],
    ['device-a', 'device-a', 'subscribe', jobs, 'allow'],
    ['device-a', 'device-a', 'subscribe', '#', 'deny'],
    ['device-a', 'device-a', 'publish', 'brim/v1/default/device/b/state', 'deny'],
    // A device whose grant has ended.
    ['device-ended', 'device-ended', 'publish', 'brim/v1/default/device/ended/state', 'deny'],
    ['bridge-b', 'bridge-b', 'publish', jobs, 'allow'],
    ['bridge-b', 'bridge-b', 'publish', state, 'deny'],
    ['device-a', 'bridge-b', 'publish', state, 'allow'],
    ['watcher', 'watcher', 'subscribe', '#', 'deny'],
    ['watcher', '', 'subscribe', '#', 'deny'],
  ])('answers client %s of user %s that wants to %s on %s: %s', async (clientid, username, action, topic, result) => {
    await using hook = await startHook()
    expect(await hook.emqx(emqxAcl.path, { clientid, username, action, topic })).toBe(result)
  })
})

describe('the hook for VerneMQ', () => {
  const client = { mountpoint: '', client_id: 'device-a', username: 'device-a' }
  const notAllowed = { result: { error: 'not_allowed' } }

  it('accepts a client with a valid token and rejects another', async () => {
    await using hook = await startHook()
    const register = { peer_addr: '127.0.0.1', peer_port: 8888, ...client, clean_session: true }
    expect(await hook.verne('auth_on_register', { ...register, password: 'token of device-a' })).toEqual({ result: 'ok' })
    expect(await hook.verne('auth_on_register', { ...register, password: 'guess' })).toEqual(notAllowed)
  })

  it('decides each publication, and grants only the permitted filters of a subscription', async () => {
    await using hook = await startHook()
    const payload = Buffer.alloc(250 * 1024).toString('base64')
    const publish = { ...client, qos: 1, payload, retain: true }
    expect(await hook.verne('auth_on_publish', { ...publish, topic: state })).toEqual({ result: 'ok' })
    expect(await hook.verne('auth_on_publish', { ...publish, topic: jobs })).toEqual(notAllowed)
    const topics = [jobs, '#'].map((topic) => ({ topic, qos: 1 }))
    expect(await hook.verne('auth_on_subscribe', { ...client, topics })).toEqual({
      result: 'ok',
      topics: [
        { topic: jobs, qos: 1 },
        { topic: '#', qos: 128 },
      ],
    })
  })

  it('passes other hooks on to the other plug-ins', async () => {
    await using hook = await startHook()
    expect(await hook.verne('on_publish', client)).toEqual({ result: 'next' })
  })
})

it('a hook rejects a request without its secret, and a malformed one', async () => {
  await using hook = await startHook()
  const body = { clientid: 'device-a', ...login('device-a') }
  for (const headers of [{}, { authorization: 'Bearer guess' }]) {
    for (const path of [emqxAuth.path, emqxAcl.path, vernemq.path, `${vernemq.path}?secret=guess`])
      expect((await hook.post(path, body, headers as Record<string, string>)).status).toBe(401)
  }
  expect((await hook.post(emqxAcl.path, { clientid: 'a' }, { authorization: `Bearer ${secret}` })).status).toBe(400)
})
