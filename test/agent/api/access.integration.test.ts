import { chmod, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import OpenAI from 'openai'
import { beforeAll, describe, expect, it } from 'vitest'
import type { AgentSettings } from '../../../agent/config.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { brim as execute } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { shared } from '../../support/shared.ts'

const [key, nextKey] = ['a-key-of-32-characters-for-tests', 'another-key-of-32-characters-too']

const world = shared(startAgentWorld)
let keyFile: string
let apiUrl: string
beforeAll(async () => {
  keyFile = join(world.dir, 'api.key')
  await writeFile(keyFile, `${key}\n${nextKey}\n`, { mode: 0o600 })
  const open = { apiHost: '0.0.0.0', apiKeyFile: keyFile, apiAllowedHosts: ['host.docker.internal', '172.17.0.1'] }
  const agent = await world.startAgent({ id: 'reachable', ...open })
  apiUrl = agent.apiUrl.replace('0.0.0.0', '127.0.0.1')
})

/** As a client that reaches the API by any name. */
const statusOf = (headers: Record<string, string>, path = '/v1/models') =>
  new Promise<number | undefined>((resolve, reject) => {
    const request = httpRequest({ host: '127.0.0.1', port: new URL(apiUrl).port, path, headers }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    request.on('error', reject)
    request.end()
  })
const bearer = (text: string) => ({ authorization: `Bearer ${text}` })

describe('an API beyond loopback', () => {
  it.each([
    ['no options', (): Partial<AgentSettings> => ({}), /--api-key-file and --api-allow-host/],
    ['a key alone', () => ({ apiKeyFile: keyFile }), /only with --api-allow-host$/],
    ['a host alone', () => ({ apiAllowedHosts: ['box'] }), /only with --api-key-file$/],
  ] as const)('does not start with %s', async (_, settings, why) => {
    const given = settings()
    await expect(world.startAgent({ id: 'a', apiHost: '0.0.0.0', ...given })).rejects.toMatchObject({
      code: 'LISTEN_REFUSED',
      message: expect.stringMatching(why),
    })
  })

  it('serves clients with a key of the file', async () => {
    for (const apiKey of [key, nextKey]) {
      const openai = new OpenAI({ baseURL: `${apiUrl}/v1`, apiKey, maxRetries: 0 })
      expect((await openai.completions.create({ model: 'brim', prompt: 'x', max_tokens: 2 })).choices).toHaveLength(1)
    }
    const { io, out } = captureIo()
    const argv = ['ask', 'Where?', '--api', apiUrl, '--max-tokens', '2', '--json']
    await execute([...argv, '--api-key-file', keyFile], io)
    expect(JSON.parse(out())).toMatchObject({ tokens: 2 })
    await expect(execute(argv, captureIo().io)).rejects.toMatchObject({ code: 'API_KEY_INVALID' })
  })

  it('rejects others, as OpenAI does', async () => {
    const openai = new OpenAI({ baseURL: `${apiUrl}/v1`, apiKey: 'a-wrong-key-of-this-file', maxRetries: 0 })
    const rejected = openai.models.list()
    await expect(rejected).rejects.toBeInstanceOf(OpenAI.AuthenticationError)
    await expect(rejected).rejects.toMatchObject({ status: 401, code: 'API_KEY_INVALID' })
    for (const headers of [{}, bearer(key.slice(1)), bearer(`${key}x`), { authorization: key }, bearer('')])
      for (const path of ['/v1/models', '/health', '/nowhere']) expect(await statusOf(headers, path)).toBe(401)
    const response = await fetch(`${apiUrl}/health`)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
  })

  it.each([
    ['host.docker.internal:7071', 200],
    ['HOST.docker.internal', 200],
    ['172.17.0.1:7071', 200],
    ['localhost:7071', 200],
    ['172.17.0.2:7071', 403],
    ['evil.example:7071', 403],
    ['host.docker.internal.evil.example', 403],
  ])('called as %s responds with %i', async (host, status) => {
    expect(await statusOf({ host, ...bearer(key) })).toBe(status)
  })

  it('tells orchestrators whether it is ready, without a key and under any name, and no more than that', async () => {
    await expect.poll(() => statusOf({ host: '10.1.2.3:7071' }, '/ready')).toBe(200)
    expect(await (await fetch(`${apiUrl}/ready`)).json()).toEqual({ status: 'ready', reasons: [] })
  })
})

describe('a key file', () => {
  const start = (apiKeyFile: string) => world.startAgent({ id: 'b', apiKeyFile })
  it.each([
    ['short\n', 'at least 16 characters'],
    ['\n\n', 'one key a line'],
    ['a key of many words and spaces\n', 'without spaces'],
  ])('with %j is rejected', async (text, why) => {
    const file = join(world.dir, 'bad.key')
    await writeFile(file, text, { mode: 0o600 })
    await expect(start(file)).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining(why) })
  })

  it('that is missing, or that others can read, is rejected', async () => {
    const missing = join(world.dir, 'none.key')
    await expect(start(missing)).rejects.toMatchObject({ code: 'CONFIG_INVALID', hint: expect.stringContaining('umask 077') })
    const open = join(world.dir, 'open.key')
    await writeFile(open, `${key}\n`)
    await chmod(open, 0o644)
    await expect(start(open)).rejects.toMatchObject({ message: expect.stringContaining('mode 0644') })
  })

  it('is required on loopback too', async () => {
    const agent = await start(keyFile)
    expect((await fetch(`${agent.apiUrl}/health`)).status).toBe(401)
    expect((await fetch(`${agent.apiUrl}/health`, { headers: bearer(key) })).status).toBe(200)
  })

  it.each(['box:7071', 'http://box', 'a/b', ''])('allows no host %j', async (host) => {
    const started = world.startAgent({ id: 'c', apiAllowedHosts: [host] })
    await expect(started).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('apiAllowedHosts.0') })
  })
})
