import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { type HttpServer, startHttpServer } from '../../../cloud-bridge/http/http-server.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

let server: HttpServer | undefined
afterEach(() => server?.close())

it('a route that fails is answered with 500 and logged once; the next request is served', async () => {
  const { logger, lines } = recordingLogger('error')
  const routes = {
    '/broken': () => {
      throw new Error('disk I/O error')
    },
    '/whole': () => ({ ok: true }),
  }
  server = await startHttpServer({ host: '127.0.0.1', port: 0, routes, upgrades: {}, logger })
  const url = `http://127.0.0.1:${server.port}`
  const broken = await fetch(`${url}/broken`)
  expect({ status: broken.status, body: await broken.json() }).toMatchObject({
    status: 500,
    body: { error: { code: 'INTERNAL' } },
  })
  expect(lines).toMatchObject([{ msg: 'HTTP request failed', err: { message: 'disk I/O error' } }])
  expect(await (await fetch(`${url}/whole`)).json()).toEqual({ ok: true })
})

it('a handler that fails is answered for, and logged where it is no fault of the request', async () => {
  const { logger, lines } = recordingLogger('error')
  const things = {
    handle(request: IncomingMessage) {
      if (request.url === '/things/wrong') throw new BrimError('JOB_UNKNOWN', 'no such thing')
      return Promise.reject(new Error('disk I/O error'))
    },
  }
  server = await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    routes: {},
    handlers: { '/things': things },
    upgrades: {},
    logger,
  })
  const get = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${server!.port}/things/${path}`)
    return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code]
  }
  expect(await get('wrong')).toEqual([404, 'JOB_UNKNOWN'])
  expect(await get('broken')).toEqual([500, 'INTERNAL'])
  expect(lines).toMatchObject([{ msg: 'HTTP request failed', err: { message: 'disk I/O error' } }])
})

it('a refused upgrade leaves no connection open, though its peer does not close its own side', async () => {
  const { logger } = recordingLogger('error')
  server = await startHttpServer({ host: '127.0.0.1', port: 0, routes: {}, upgrades: {}, logger })
  const socket = connect({ host: '127.0.0.1', port: server.port, allowHalfOpen: true })
  socket.write('GET /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  socket.resume()
  await once(socket, 'end')
  // What nobody is there to take is answered with a reset.
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

it('closes though somebody is connected who says nothing, before TLS too', async () => {
  const { logger } = recordingLogger('error')
  const pem = (name: string) => readFileSync(new URL(`../../fixtures/tls/first.${name}.pem`, import.meta.url), 'utf8')
  const certificate = { current: { cert: pem('cert'), key: pem('key') }, onChange() {}, close() {} }
  const one = await startHttpServer({ host: '127.0.0.1', port: 0, routes: {}, upgrades: {}, certificate, logger })
  const socket = connect({ host: '127.0.0.1', port: one.port })
  await once(socket, 'connect')
  const gone = once(socket, 'close')
  await one.close()
  socket.resume()
  await gone
})
