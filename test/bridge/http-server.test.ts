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

it('what lies below a path is read with the rest of it and the query, by those who may read', async () => {
  const { logger, lines } = recordingLogger('error')
  const below = {
    '/v1/things/': (path: readonly string[], query: URLSearchParams) =>
      path[0] === 'none' ? undefined : { path, of: query.get('of') },
  }
  const gate = { subjectOf: (token: string) => (token === 'good' ? 'reader-me' : undefined) }
  server = await startHttpServer({ host: '127.0.0.1', port: 0, routes: {}, below, upgrades: {}, gate, logger })
  const url = `http://127.0.0.1:${server.port}/v1/things`
  const get = async (path: string, token = 'good') => {
    const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } })
    return [answer.status, await answer.json()]
  }
  expect(await get('/a/b?of=c%3Fd')).toEqual([200, { path: ['a', 'b'], of: 'c?d' }])
  expect(await get('/none')).toMatchObject([404, { error: { code: 'REQUEST_INVALID' } }])
  expect(await get('')).toMatchObject([404, {}])
  expect(await get('/a', 'bad')).toMatchObject([401, { error: { code: 'NOT_AUTHORIZED' } }])
  expect((await fetch(`${url}/a`, { method: 'DELETE' })).status).toBe(405)
  expect(lines).toEqual([])
})
