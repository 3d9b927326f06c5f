import { afterEach, expect, it } from 'vitest'
import { type HttpServer, startHttpServer } from '../../cloud-bridge/link/http-server.ts'
import { recordingLogger } from '../support/recording-logger.ts'

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
