import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Api } from '../../../agent/api/server.ts'
import { pageRoutes } from '../../../cloud-bridge/api/page.ts'
import type { Endpoint } from '../../../core/answer/endpoint/endpoint.ts'
import type { Manifest } from '../../../core/model/bundle/manifest.ts'
import { startTestApi } from '../../support/api.ts'
import { startTestHttp, type TestHttp } from '../../support/http.ts'

const files = ['/page/main.js', '/page/style.css', '/page/icon.svg']
let bridge: TestHttp
let agent: Api
let auth = false
beforeAll(async () => {
  bridge = await startTestHttp([pageRoutes(() => auth)])
  // No request of this test reaches it.
  const endpoint = {} as Endpoint
  const access = { keys: ['a-key-of-the-agent'], allowedHosts: [] }
  agent = await startTestApi({ card: { name: 'tiny', createdAt: '2026-01-01T00:00:00Z' } as Manifest['card'] }, endpoint, {
    access,
  })
})
afterAll(async () => {
  await bridge.close()
  await agent.close()
})

/** Status of a request whose path is sent as it is: fetch would resolve its dots. */
const statusOf = (path: string, headers: Record<string, string> = {}) =>
  new Promise<number | undefined>((resolve, reject) =>
    request({ host: '127.0.0.1', port: bridge.port, path, headers }, (response) => resolve(response.resume().statusCode))
      .on('error', reject)
      .end(),
  )

describe('the page of a bridge', () => {
  it('is a document without scripts, styles or addresses of others, which a browser may not frame', async () => {
    const response = await bridge.get('/')
    const text = await response.text()
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(text).toContain('data-server="bridge" data-auth="none"')
    expect(text).not.toMatch(/<style|<script>|https?:|\son\w+=/)
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  })

  it('says whether a key is needed now', async () => {
    auth = true
    expect(await (await bridge.get('/')).text()).toContain('data-auth="key"')
    auth = false
    expect(await (await bridge.get('/')).text()).toContain('data-auth="none"')
  })

  it.each(['/', ...files])('%s is sent again only where it has changed', async (path) => {
    const first = await bridge.get(path)
    expect([first.status, first.headers.get('cache-control')]).toEqual([200, 'no-cache'])
    const again = await bridge.get(path, { 'if-none-match': first.headers.get('etag')! })
    expect([again.status, await again.text()]).toEqual([304, ''])
    expect((await bridge.get(path, { 'if-none-match': '"other"' })).status).toBe(200)
    const head = await fetch(bridge.url + path, { method: 'HEAD' })
    expect([head.status, head.headers.get('etag')]).toEqual([200, first.headers.get('etag')])
  })

  it('has less than 300 KB, compressed as it is sent', async () => {
    const sizes = await Promise.all(
      ['/', ...files].map(async (path) => {
        const zipped = await bridge.get(path, { 'accept-encoding': 'gzip' })
        const plain = await bridge.get(path, { 'accept-encoding': 'identity' })
        expect([zipped.headers.get('content-encoding'), plain.headers.get('content-encoding')]).toEqual(['gzip', null])
        expect(await zipped.text()).toBe(await plain.text())
        return Number(zipped.headers.get('content-length'))
      }),
    )
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(300_000)
  })

  it('has no other files: neither its sources nor what lies beside them', async () => {
    const paths = [
      '/page/',
      '/page/index.html',
      '/page/main.tsx',
      '/page/../package.json',
      '/page/..%2f..%2fpackage.json',
      '/page/%2e%2e/brim.js',
      '/page/constructor',
      '/main.js',
    ]
    for (const path of paths) expect([path, await statusOf(path)]).toEqual([path, 404])
  })

  it('may call its own bridge, and pages of others may not', async () => {
    const own = bridge.url
    expect((await bridge.get('/', { origin: own })).status).toBe(200)
    expect((await bridge.get('/', { origin: own.replace('127.0.0.1', 'localhost') })).status).toBe(403)
    expect((await bridge.get('/', { origin: 'http://127.0.0.1:1' })).status).toBe(403)
    expect((await bridge.get('/', { origin: 'null' })).status).toBe(403)
    // DNS rebinding: the page's own name, which is none of this machine.
    expect(await statusOf('/', { host: 'example.org', origin: 'http://example.org' })).toBe(403)
  })
})

describe('the page of an agent', () => {
  it('needs no key, unlike what it asks for, and says so', async () => {
    const response = await fetch(agent.url)
    expect(await response.text()).toContain('data-server="agent" data-auth="key"')
    expect(response.headers.get('content-security-policy')).toContain("script-src 'self'")
    for (const path of files) expect((await fetch(agent.url + path)).status).toBe(200)
    expect((await fetch(`${agent.url}/page/x.js`)).status).toBe(404)
    for (const path of ['/health', '/condition', '/budget', '/v1/models'])
      expect((await fetch(agent.url + path)).status).toBe(401)
  })

  it('is not for another host', async () => {
    const status = await new Promise((resolve) =>
      request(agent.url, { headers: { host: 'example.org' } }, (response) => resolve(response.resume().statusCode)).end(),
    )
    expect(status).toBe(403)
  })
})
