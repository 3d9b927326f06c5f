import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Routes } from '../../../cloud-bridge/http/router.ts'
import { openToAll } from '../../../cloud-bridge/identity/authorizer.ts'
import { untilAborted } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Operation } from '../../../core/wire/protocol/http/operation.ts'
import { startTestHttp, type TestHttp } from '../../support/http.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

const read = {
  method: 'GET',
  path: '/things/:id',
  access: 'open',
  summary: '',
  response: z.unknown(),
} as const satisfies Operation
const list = {
  method: 'GET',
  path: '/things',
  access: 'open',
  summary: '',
  query: z.object({ limit: z.coerce.number().int().default(5) }),
  response: z.object({ limit: z.number() }),
} as const satisfies Operation
const write = {
  method: 'POST',
  path: '/things',
  access: 'open',
  summary: '',
  status: 202,
  maxBodyBytes: 100,
  body: z.strictObject({ name: z.string(), size: z.number().default(1) }),
  response: z.unknown(),
} as const satisfies Operation
const touch = { method: 'POST', path: '/things/:id/touch', access: 'open', summary: '', response: z.unknown() } as const

const routes: Routes = (router) => {
  router.serve(read, ({ params: { id } }) => {
    if (id === 'wrong') throw new BrimError('JOB_UNKNOWN', 'no such thing', { hint: 'another one' })
    if (id === 'later') throw new BrimError('QUOTA_EXCEEDED', 'not now', { retryAfterMs: 1_500 })
    if (id === 'broken') throw new Error('disk I/O error')
    return { id }
  })
  router.serve(list, ({ query }) => query)
  router.serve(write, ({ body }) => body)
  router.serve(touch, ({ params: { id }, body }) => ({ id, body: body ?? null }))
}

const answered = async (response: Response) => [response.status, await response.json()]
const refused = (status: number, message: string) => [
  status,
  { error: { code: 'REQUEST_INVALID', message, type: 'invalid_request_error', param: null } },
]

describe('an operation', () => {
  it('receives decoded parameters and a validated query, and responds with uncached JSON', async () => {
    await using http = await startTestHttp([routes])
    const response = await http.get('/things/a%2Fb?x=1')
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('content-type')).toContain('application/json')
    expect(await response.text()).toBe('{"id":"a/b"}\n')
    expect(await answered(await http.get('/things'))).toEqual([200, { limit: 5 }])
    expect(await answered(await http.get('/things?limit=x'))).toEqual([400, expect.anything()])
  })

  it('receives a validated body with defaults, and responds with its own status', async () => {
    await using http = await startTestHttp([routes])
    expect(await answered(await http.post('/things', { name: 'a' }))).toEqual([202, { name: 'a', size: 1 }])
  })

  it('names every field of a body that is wrong', async () => {
    await using http = await startTestHttp([routes])
    const [status, body] = await answered(await http.post('/things', { size: 'x', more: 1 }))
    expect(status).toBe(400)
    expect(body).toMatchObject({
      error: { code: 'REQUEST_INVALID', message: expect.stringMatching(/"name": .*"size": .*the body: /) },
    })
  })

  it('without a body ignores what the client sends', async () => {
    await using http = await startTestHttp([routes])
    const body = [200, { id: '1', body: null }]
    expect(await answered(await http.post('/things/1/touch', { any: 'thing' }))).toEqual(body)
    expect(await answered(await fetch(`${http.url}/things/1/touch`, { method: 'POST' }))).toEqual(body)
    expect(await answered(await fetch(`${http.url}/things/1/touch`, { method: 'POST', body: 'text' }))).toEqual(body)
  })
})

describe('an error', () => {
  it('of the bridge has its status, code and hint', async () => {
    await using http = await startTestHttp([routes])
    const body = {
      error: { code: 'JOB_UNKNOWN', message: 'no such thing', hint: 'another one', type: 'invalid_request_error', param: null },
    }
    expect(await answered(await http.get('/things/wrong'))).toEqual([404, body])
    const later = await http.get('/things/later')
    expect([later.status, later.headers.get('retry-after')]).toEqual([429, '2'])
  })

  it('that is unexpected is a 500 without its text, and is logged once; the next request is served', async () => {
    const { logger, lines } = recordingLogger('error')
    await using http = await startTestHttp([routes], { logger })
    expect(await answered(await http.get('/things/broken'))).toEqual([
      500,
      { error: { code: 'INTERNAL', message: 'the server failed; its log has the reason', type: 'server_error', param: null } },
    ])
    expect(lines).toMatchObject([{ msg: 'HTTP request failed', err: { message: 'disk I/O error' } }])
    expect((await http.get('/things/1')).status).toBe(200)
  })

  it('of the transport has the same form', async () => {
    await using http = await startTestHttp([routes])
    const post = (body: string, type = 'application/json') =>
      fetch(`${http.url}/things`, { method: 'POST', headers: { 'content-type': type }, body }).then(answered)
    expect(await post('{"name":')).toEqual(refused(400, 'the body is not JSON'))
    expect(await post('name=a', 'text/plain')).toEqual(refused(415, 'send JSON (content-type: application/json)'))
    expect(await post(JSON.stringify({ name: 'x'.repeat(100) }))).toEqual(refused(413, 'the body is longer than 100 bytes'))
    expect(await answered(await http.get('/nowhere'))).toEqual(refused(404, 'no such path'))
    expect(await answered(await http.get('/things/1/touch/it'))).toEqual(refused(404, 'no such path'))
    const deleted = await fetch(`${http.url}/things/1`, { method: 'DELETE' })
    expect(deleted.headers.get('allow')).toBe('GET, HEAD')
    expect(await answered(deleted)).toEqual(refused(405, 'this path takes GET, HEAD'))
    const head = await fetch(`${http.url}/things/1`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect(await answered(await http.get('/things/%ff'))).toEqual([
      400,
      { error: expect.objectContaining({ code: 'REQUEST_INVALID' }) },
    ])
  })

  it('is the response to every request of a web page, and to every request to another host', async () => {
    await using http = await startTestHttp([routes])
    expect(await answered(await http.get('/things', { origin: 'https://example.org' }))).toEqual(
      refused(403, 'not for web pages (--allow-origin allows one)'),
    )
    expect(await statusOf(http, 'GET /things HTTP/1.1\r\nHost: example.org\r\n\r\n')).toBe('403')
    expect(await statusOf(http, 'GET /things HTTP/1.1\r\nHost: [::1]:80\r\n\r\n')).toBe('200')
  })
})

/** Status of the response to a raw request. */
async function statusOf(http: TestHttp, request: string): Promise<string | undefined> {
  const socket = connect({ host: '127.0.0.1', port: http.port })
  socket.write(request)
  const [head] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return head.toString().split(' ')[1]
}

describe('an authorized request', () => {
  it('ends with the status of its response, or 499 if the client disconnected before', async () => {
    const statuses: number[] = []
    const authorize = () => ({
      ...openToAll.authorize({} as IncomingMessage, { method: 'GET', path: '/', access: 'open' }),
      end: (status: number) => statuses.push(status),
    })
    let arrived = () => {}
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve
    })
    const wait: Routes = (router) => {
      router.serve(list, ({ query }) => query)
      router.serve(touch, ({ closed }) => {
        arrived()
        return untilAborted(closed)
      })
    }
    await using http = await startTestHttp([wait], { authorizer: { authRequired: false, authorize } })
    await http.get('/things')
    await http.get('/things?limit=x')
    const leave = new AbortController()
    const left = fetch(`${http.url}/things/1/touch`, { method: 'POST', signal: leave.signal })
    left.catch(() => {})
    await arrival
    leave.abort()
    await expect(left).rejects.toThrow()
    await expect.poll(() => statuses).toEqual([200, 400, 499])
  })
})

describe('a connection', () => {
  it('whose upgrade is refused is closed, though its peer does not close its side', async () => {
    await using http = await startTestHttp([])
    const socket = connect({ host: '127.0.0.1', port: http.port, allowHalfOpen: true })
    socket.write('GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.resume()
    await once(socket, 'end')
    // The server has closed the socket: another write is met with a reset.
    let error: Error | undefined
    socket.on('error', (err) => {
      error = err
    })
    await expect
      .poll(() => {
        if (!socket.destroyed) socket.write('x')
        return error
      })
      .toMatchObject({ code: expect.stringMatching(/ECONNRESET|EPIPE/) })
  })

  it('that is silent, even before TLS, does not keep the server from closing', async () => {
    const pem = (name: string) => readFileSync(new URL(`../../fixtures/tls/first.${name}.pem`, import.meta.url), 'utf8')
    const certificate = { current: { cert: pem('cert'), key: pem('key') }, onChange() {}, close() {} }
    const http = await startTestHttp([], { certificate })
    const socket = connect({ host: '127.0.0.1', port: http.port })
    await once(socket, 'connect')
    const closed = once(socket, 'close')
    await http.close()
    socket.resume()
    await closed
    expect(socket.destroyed).toBe(true)
  })
})
