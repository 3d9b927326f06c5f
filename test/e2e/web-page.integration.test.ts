import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { startAgentWorld } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { shared } from '../support/shared.ts'

const page = 'https://chat.example.org'
const world = shared(startAgentWorld)
const bridge = shared(() => startTestBridge({ bundle: world.bundle, stateDir: `${world.dir}/alone`, allowedOrigins: [page] }))
let urls: Record<'agent' | 'bridge', string>
beforeAll(async () => {
  const agent = await world.startAgent({ id: 'open-to-a-page', apiAllowedOrigins: [page] })
  urls = { agent: agent.apiUrl, bridge: bridge.httpUrl }
})

const question = { model: 'brim', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 }
const ask = (url: string, headers: Record<string, string>, body: string | Uint8Array<ArrayBuffer>) =>
  fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })

describe.each(['agent', 'bridge'] as const)('a page that may call the %s', (door) => {
  it('is told so before it sends a request, and reads whole and streamed answers', async () => {
    const preflight = await fetch(`${urls[door]}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin: page,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,x-stainless-lang',
      },
    })
    expect(preflight.status).toBe(204)
    expect(Object.fromEntries(preflight.headers)).toMatchObject({
      'access-control-allow-origin': page,
      'access-control-allow-methods': expect.stringContaining('POST'),
      'access-control-allow-headers': 'authorization,content-type,x-stainless-lang',
      vary: 'origin',
    })
    for (const stream of [false, true]) {
      const response = await ask(urls[door], { origin: page }, JSON.stringify({ ...question, stream }))
      expect(response.status).toBe(200)
      expect(response.headers.get('access-control-allow-origin')).toBe(page)
      expect(response.headers.get('access-control-expose-headers')).toContain('x-request-id')
      await response.text()
    }
    const refused = await ask(urls[door], { origin: page }, '{}')
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([400, page])
  })

  it('is no page of another origin', async () => {
    for (const origin of ['https://chat.example.org:8443', 'http://chat.example.org', 'https://evil.example', 'null']) {
      const refused = await ask(urls[door], { origin }, JSON.stringify(question))
      expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([403, null])
      const preflight = await fetch(`${urls[door]}/v1/models`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'GET' },
      })
      expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([403, null])
    }
  })

  it('may compress its requests, which are no longer unpacked than others', async () => {
    const compressed = await ask(urls[door], { 'content-encoding': 'gzip' }, gzipSync(JSON.stringify(question)))
    expect(compressed.status).toBe(200)
    const bomb = gzipSync(Buffer.alloc(256 * 1024 * 1024, ' '))
    expect((await ask(urls[door], { 'content-encoding': 'gzip' }, bomb)).status).toBe(413)
    const cut = gzipSync(JSON.stringify(question)).subarray(0, -9)
    for (const body of [cut, JSON.stringify(question)]) {
      const refused = await ask(urls[door], { 'content-encoding': 'gzip' }, body)
      expect(refused.status).toBe(400)
      expect(await refused.text()).toContain('is not gzip')
    }
    expect((await ask(urls[door], { 'content-encoding': 'br' }, '{}')).status).toBe(415)
  })

  it('reads from a model how long prompt and answer may be, and in which modes it answers', async () => {
    const { data } = (await (await fetch(`${urls[door]}/v1/models`)).json()) as { data: object[] }
    const modes = door === 'agent' ? ['private', 'auto'] : ['auto', 'sketch', 'full']
    expect(data).toHaveLength(2)
    for (const model of data) expect(model).toMatchObject({ max_model_len: 512, brim: { modes } })
  })
})

it.each(['chat.example.org', 'https://chat.example.org/', '*', 'ftp://x'])('%s is no origin', async (origin) => {
  const settings = { id: 'misread', apiAllowedOrigins: [origin] }
  await expect(world.startAgent(settings)).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringContaining('must be an origin'),
  })
})
