import { describe, expect, it } from 'vitest'
import { hookBodyBytes, hookPaths, hookRoutes } from '../../../cloud-bridge/broker/hook.ts'
import { startHttpServer } from '../../../cloud-bridge/http/http-server.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const secret = 'a-secret-of-the-hook'
const login = (client: string) => ({ username: client, password: `token of ${client}` })
const state = 'brim/v1/default/device/a/state'
const jobs = 'brim/v1/default/device/a/jobs'

/** A bridge's HTTP at which device a and the bridge have tokens, and a key may read. */
async function startHook() {
  const known = ['device-a', 'bridge-b', 'viewer-monitoring']
  const gate = { asks: true, subjectOf: (token: string) => known.find((client) => token === `token of ${client}`) }
  const posts = hookRoutes({ secret, fleet: 'default', gate, isPresent: (client) => known.includes(client) })
  const options = { routes: {}, posts, bodyLimits: hookBodyBytes, upgrades: {}, logger: silentLogger() }
  const http = await startHttpServer({ host: '127.0.0.1', port: 0, ...options })
  const post = async (path: string, body: object, headers: Record<string, string>) => {
    const request = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
    const answer = await fetch(`http://127.0.0.1:${http.port}${path}`, request)
    return { status: answer.status, body: (await answer.json()) as { result: unknown } }
  }
  const bearer = { authorization: `Bearer ${secret}` }
  return {
    post,
    emqx: async (path: string, body: object) => (await post(path, body, bearer)).body.result,
    verne: async (hook: string, body: object) =>
      (await post(`${hookPaths.vernemq}?secret=${secret}`, body, { 'vernemq-hook': hook })).body,
    [Symbol.asyncDispose]: () => http.close(),
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
    // How a bridge ends a connection.
    ['device-a', login('bridge-b'), 'allow'],
    ['bridge-c', login('bridge-b'), 'deny'],
    ['viewer-monitoring', login('viewer-monitoring'), 'deny'],
  ])('lets %s in with %j: %s', async (clientid, credentials, result) => {
    await using hook = await startHook()
    expect(await hook.emqx(hookPaths.emqxAuth, { clientid, ...credentials })).toBe(result)
  })

  it.each([
    ['device-a', 'device-a', 'publish', state, 'allow'],
    ['device-a', 'device-a', 'publish', jobs, 'deny'],
    ['device-a', 'device-a', 'subscribe', jobs, 'allow'],
    ['device-a', 'device-a', 'subscribe', '#', 'deny'],
    ['device-a', 'device-a', 'publish', 'brim/v1/default/device/b/state', 'deny'],
    // Its session is over.
    ['device-gone', 'device-gone', 'publish', 'brim/v1/default/device/gone/state', 'deny'],
    ['bridge-b', 'bridge-b', 'publish', jobs, 'allow'],
    ['bridge-b', 'bridge-b', 'publish', state, 'deny'],
    ['device-a', 'bridge-b', 'publish', state, 'allow'],
    ['watcher', 'watcher', 'subscribe', '#', 'deny'],
    ['watcher', '', 'subscribe', '#', 'deny'],
  ])('lets client %s of user %s %s on %s: %s', async (clientid, username, action, topic, result) => {
    await using hook = await startHook()
    expect(await hook.emqx(hookPaths.emqxAcl, { clientid, username, action, topic })).toBe(result)
  })
})

describe('the hook for VerneMQ', () => {
  const client = { mountpoint: '', client_id: 'device-a', username: 'device-a' }
  const notAllowed = { result: { error: 'not_allowed' } }

  it('lets in who has a token', async () => {
    await using hook = await startHook()
    const register = { peer_addr: '127.0.0.1', peer_port: 8888, ...client, clean_session: true }
    expect(await hook.verne('auth_on_register', { ...register, password: 'token of device-a' })).toEqual({ result: 'ok' })
    expect(await hook.verne('auth_on_register', { ...register, password: 'guess' })).toEqual(notAllowed)
  })

  it('says who may publish, and grants of the filters asked for those that are allowed', async () => {
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

  it('leaves other hooks to others', async () => {
    await using hook = await startHook()
    expect(await hook.verne('on_publish', client)).toEqual({ result: 'next' })
  })
})

it('a hook answers nobody without its secret, and nothing that it cannot read', async () => {
  await using hook = await startHook()
  const body = { clientid: 'device-a', ...login('device-a') }
  for (const headers of [{}, { authorization: 'Bearer guess' }]) {
    for (const path of [...Object.values(hookPaths), `${hookPaths.vernemq}?secret=guess`])
      expect((await hook.post(path, body, headers as Record<string, string>)).status).toBe(401)
  }
  expect((await hook.post(hookPaths.emqxAcl, { clientid: 'a' }, { authorization: `Bearer ${secret}` })).status).toBe(400)
})
