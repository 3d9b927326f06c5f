import { createServer, type RequestListener } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type GetOptions, startDownload } from '../../agent/bundles/get.ts'
import { isPublicAddress } from '../../agent/bundles/public-address.ts'
import { onLoopback } from '../../lab/cluster/loopback-server.ts'
import { noPatience } from '../support/install.ts'

/** A service of a device's own network, which only the device can reach. */
let requests: string[]
let server: Awaited<ReturnType<typeof onLoopback>>
let origin: string
let respond: RequestListener
beforeEach(async () => {
  requests = []
  respond = (_, response) => response.end('secret')
  const service = createServer((request, response) => {
    requests.push(request.url ?? '')
    respond(request, response)
  })
  server = await onLoopback(service)
  origin = `http://127.0.0.1:${server.port}`
})
afterEach(() => server[Symbol.asyncDispose]())

const signal = new AbortController().signal
const fetched = (url: string, options: Partial<GetOptions> = {}) =>
  startDownload(new URL(url), { own: undefined, stallMs: 1_000, patience: noPatience(), signal, ...options }).then(
    ({ body }) => {
      body.destroy()
      return 'fetched'
    },
    (error: unknown) => error,
  )
const refused = { code: 'BUNDLE_INVALID' }

describe('a URL that a job names', () => {
  it('does not reach private addresses, however they are written', async () => {
    const { port } = new URL(origin)
    for (const host of ['127.0.0.1', 'localhost', '0x7f.1', '2130706433', '[::1]', '[::ffff:127.0.0.1]', '0.0.0.0'])
      expect(await fetched(`http://${host}:${port}/`)).toMatchObject(refused)
    expect(await fetched('http://169.254.169.254/latest/meta-data')).toMatchObject(refused)
    expect(requests).toEqual([])
  })

  it('reaches sources that the configuration names, and the own bridge, only', async () => {
    expect(await fetched(`${origin}/a`, { sources: [origin] })).toBe('fetched')
    expect(await fetched(`${origin}/b`, { own: { origin, credentials: undefined } })).toBe('fetched')
    expect(await fetched(`${origin}/c`, { sources: ['http://192.0.2.1'] })).toMatchObject(refused)
    expect(await fetched('http://example.org/', { sources: [origin] })).toMatchObject(refused)
    expect(requests).toEqual(['/a', '/b'])
  })

  it('is not redirected to another origin', async () => {
    const other = `http://localhost:${new URL(origin).port}`
    respond = ({ url }, response) =>
      url === '/start' ? response.writeHead(302, { location: `${other}/admin` }).end() : response.end()
    expect(await fetched(`${origin}/start`, { own: { origin, credentials: undefined } })).toMatchObject(refused)
    expect(await fetched(`${origin}/start`, { sources: [origin] })).toMatchObject(refused)
    expect(requests).toEqual(['/start', '/start'])
    expect(await fetched(`${origin}/start`, { sources: [origin, other] })).toBe('fetched')
  })

  it('appears in errors without password and query', async () => {
    respond = (_, response) => response.writeHead(404).end()
    const url = `${origin.replace('//', '//ada:pass%77ord@')}/bundle?signature=s3cret`
    const errors = [
      await fetched(url),
      await fetched(url, { sources: [origin] }),
      await fetched('http://ada:password@127.0.0.1:1/?signature=s3cret', { sources: ['http://127.0.0.1:1'] }),
    ]
    for (const error of errors) {
      expect(error).toBeInstanceOf(Error)
      expect(String((error as Error).message)).not.toMatch(/ada|pass|s3cret/)
    }
  })
})

it('tells public addresses from all others', () => {
  for (const ip of ['8.8.8.8', '172.32.0.1', '2606:4700::1111', '100.128.0.1'])
    expect([ip, isPublicAddress(ip)]).toEqual([ip, true])
  const others = [
    '10.1.2.3',
    '172.31.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '169.254.169.254',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
  ]
  const v6 = [
    '::',
    '::1',
    'fe80::1',
    'fc00::1',
    'ff02::1',
    '::ffff:8.8.8.8',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001:db8::1',
    '2001::1',
  ]
  for (const ip of [...others, ...v6]) expect([ip, isPublicAddress(ip)]).toEqual([ip, false])
})
