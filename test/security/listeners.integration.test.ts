import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { startEmbeddedBroker } from '../../cloud-bridge/broker/embedded-broker.ts'
import type { Certificate } from '../../cloud-bridge/http/certificate.ts'
import { batchOf } from '../../cloud-bridge/http/event-streams.ts'
import { type Routes, StreamResponse } from '../../cloud-bridge/http/router.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { ListenerLimits } from '../../core/kit/listen/guard-listener.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'
import { startTestApi } from '../support/api.ts'
import { mqttClient } from '../support/broker.ts'
import { startTestHttp } from '../support/http.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { silentLogger } from '../support/silent-logger.ts'

const pem = (name: string) => readFileSync(new URL(`../fixtures/tls/${name}.pem`, import.meta.url), 'utf8')
const certificate: Certificate = {
  current: { cert: pem('first.cert'), key: pem('first.key') },
  onChange() {},
  close() {},
}
const generous = { total: 1_000, perNetwork: 1_000, waiting: 1_000, firstRequestMs: 60_000 }
/** Longer than a handshake takes on a busy machine. */
const shortMs = 500

async function startTestBroker(
  limits: Partial<ListenerLimits>,
  options: { tls?: boolean; logger?: ReturnType<typeof silentLogger> } = {},
) {
  const broker = await startEmbeddedBroker({
    host: '127.0.0.1',
    port: 0,
    limits: BridgeLimits.parse({}),
    clock: systemClock,
    fleet: 'default',
    connectionLimits: { ...generous, ...limits },
    ...(options.tls && { certificate }),
    logger: options.logger ?? silentLogger(),
  })
  return { ...broker, port: Number(new URL(broker.url).port), [Symbol.asyncDispose]: broker.close }
}

const ping = { method: 'GET', path: '/ping', access: 'open', summary: '', response: z.unknown() } as const satisfies Operation
const write = { ...ping, method: 'POST', body: z.unknown() } as const satisfies Operation
const routes: Routes = (router) => {
  router.serve(ping, () => ({ ok: true }))
  router.serve(write, () => ({ ok: true }))
}
const startHttp = (connections: Partial<ListenerLimits>, requestMs = 60_000) =>
  startTestHttp([routes], { limits: { connections: { ...generous, ...connections }, requestMs, stalledMs: 60_000 } })

/** A connection that the test holds open, and what arrives on it. */
function open(port: number, bytes = '') {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('error', () => {})
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk
  })
  if (bytes !== '') socket.write(bytes)
  return { socket, closed, text: () => text }
}

describe('a listener closes connections that send no request in time:', () => {
  it('MQTT, silent', async () => {
    await using broker = await startTestBroker({ firstRequestMs: shortMs })
    await open(broker.port).closed
  })

  it('MQTTS, silent, or with a handshake that failed, or after a handshake', async () => {
    await using broker = await startTestBroker({ firstRequestMs: shortMs }, { tls: true })
    const secured = tlsConnect({ port: broker.port, host: '127.0.0.1', rejectUnauthorized: false })
    secured.on('error', () => {})
    await Promise.all([
      open(broker.port).closed,
      open(broker.port, 'GET / HTTP/1.1\r\n\r\n').closed,
      once(secured.resume(), 'close'),
    ])
  })

  it('HTTP and HTTPS, silent or one header at a time', async () => {
    const limits = { connections: { ...generous, firstRequestMs: shortMs }, requestMs: 60_000, stalledMs: 60_000 }
    await using http = await startTestHttp([routes], { limits })
    await using https = await startTestHttp([routes], { limits, certificate })
    const slow = open(http.port, 'GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n')
    const dripping = setInterval(() => slow.socket.write('X-Drip: 1\r\n'), 50)
    await Promise.all([open(http.port).closed, open(https.port).closed, slow.closed])
    clearInterval(dripping)
    expect(slow.text()).not.toContain('200')
  })

  it('and leaves those alone that have sent one', async () => {
    await using broker = await startTestBroker({ firstRequestMs: shortMs })
    await using http = await startHttp({ firstRequestMs: shortMs })
    const client = await mqttClient(broker.url, 'device-a')
    const kept = open(http.port, 'GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
    await expect.poll(kept.text).toContain('{"ok":true}')
    await systemClock.sleep(2 * shortMs)
    expect([client.connected, kept.socket.closed]).toEqual([true, false])
    await client.endAsync(true)
    kept.socket.destroy()
  })
})

it('an HTTP body that comes too slowly gets status 408', async () => {
  await using http = await startHttp({}, shortMs)
  const slow = open(
    http.port,
    'POST /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{',
  )
  await slow.closed
  expect(slow.text()).toMatch(/^HTTP\/1.1 408 /)
})

it('a client that does not read its HTTP response is disconnected', async () => {
  const download = { ...ping, path: '/large' } as const satisfies Operation
  let isClosed = false
  const addLarge: Routes = (router) =>
    router.serve(download, () => {
      return new StreamResponse((response) => {
        response.once('close', () => {
          isClosed = true
        })
        response.end('x'.repeat(32 * 2 ** 20))
      })
    })
  const limits = { connections: generous, requestMs: 60_000, stalledMs: shortMs }
  await using http = await startTestHttp([addLarge], { limits })
  const { socket } = open(http.port, 'GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
  socket.pause()
  await expect.poll(() => isClosed, { timeout: 10 * shortMs }).toBe(true)
  expect(socket.bytesRead).toBeLessThan(32 * 2 ** 20)
  socket.destroy()
})

it('a client that waits for a late response, or for more of it, has not stalled', async () => {
  const lateMs = 3 * shortMs
  const addLate: Routes = (router) => {
    router.serve({ ...ping, path: '/late' }, async () => {
      await systemClock.sleep(lateMs)
      return { ok: true }
    })
    router.serve({ ...write, path: '/slow' }, () => {
      return new StreamResponse((response) => {
        response.write('begun, ')
        void systemClock.sleep(lateMs).then(() => response.end('ended'))
      })
    })
  }
  const limits = { connections: generous, requestMs: 60_000, stalledMs: shortMs }
  await using http = await startTestHttp([addLate], { limits })
  const [late, slow] = await Promise.all([http.get('/late'), http.post('/slow', {})])
  expect([await late.json(), await slow.text()]).toEqual([{ ok: true }, 'begun, ended'])
})

it('a client cannot open more event streams than its share; another one can, and so can it when one has ended', async () => {
  const watch = { method: 'GET', path: '/watch', access: 'open', summary: '' } as const satisfies Operation
  const source = { next: () => batchOf([]), subscribe: () => () => {} }
  const addWatch: Routes = (router) => router.serve(watch, ({ events }) => events(source))
  await using http = await startTestHttp([addWatch], { eventStreams: { total: 9, perClient: 2 } })
  const first = new AbortController()
  const watching = [await fetch(`${http.url}/watch`, { signal: first.signal }), await http.get('/watch')]
  const refused = await http.get('/watch')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
  expect(await refused.json()).toMatchObject({ error: { code: 'QUOTA_EXCEEDED' } })
  first.abort()
  await expect.poll(async () => (await http.get('/watch')).status).toBe(200)
  expect(watching.map(({ status }) => status)).toEqual([200, 200])
})

describe('at the maximum number of connections', () => {
  it('a listener refuses more, says so once, and accepts again when one has ended', async () => {
    const { logger, lines } = recordingLogger('warn')
    await using broker = await startTestBroker({ total: 2 }, { logger })
    const clients = [await mqttClient(broker.url, 'device-a'), await mqttClient(broker.url, 'device-b')]
    for (let tries = 0; tries < 3; tries++) await expect(mqttClient(broker.url, 'device-c')).rejects.toThrow()
    expect(lines).toMatchObject([{ listener: 'MQTT', closed: { total: 1 }, address: '127.0.0.1' }])
    await clients[0]!.endAsync()
    await expect.poll(() => mqttClient(broker.url, 'device-c').then((client) => clients.push(client))).toBe(3)
    await Promise.all(clients.map((client) => client.endAsync(true)))
  })

  it('requests whose body does not come make room for others', async () => {
    await using http = await startHttp({ total: 20 })
    const head = 'POST /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{'
    const flood = Array.from({ length: 40 }, () => open(http.port, head))
    expect((await http.get('/ping')).status).toBe(200)
    expect((await http.post('/ping', { name: 'x' })).status).toBe(200)
    for (const { socket } of flood) socket.destroy()
  })

  it('silent and idle connections make room for clients that send requests', async () => {
    await using broker = await startTestBroker({ total: 20 })
    await using http = await startHttp({ total: 20 })
    const idle = 'GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
    const flood: Socket[] = []
    for (let at = 0; at < 40; at++) flood.push(open(broker.port).socket, open(http.port, at % 2 === 0 ? idle : '').socket)
    const client = await mqttClient(broker.url, 'device-a')
    expect((await http.get('/ping')).status).toBe(200)
    for (let at = 0; at < 40; at++) flood.push(open(broker.port).socket)
    await expect.poll(() => flood.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(80)
    expect(client.connected).toBe(true)
    await client.endAsync(true)
    for (const socket of flood) socket.destroy()
  })
})

it("the agent's API closes silent connections, refuses slow bodies, and serves others beside a flood", async () => {
  const limits = { connections: { ...generous, total: 20, firstRequestMs: shortMs }, requestMs: shortMs, stalledMs: 0 }
  // No request of this test reaches it.
  const endpoint = {} as Endpoint
  const api = await startTestApi({ card: { name: 'tiny', createdAt: '2026-01-01T00:00:00Z' } as Manifest['card'] }, endpoint, {
    limits,
  })
  const port = Number(new URL(api.url).port)
  const slow = open(
    port,
    'POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{',
  )
  await slow.closed
  expect(slow.text()).toMatch(/^HTTP\/1.1 408 /)
  const flood = Array.from({ length: 40 }, () => open(port))
  expect((await fetch(`${api.url}/health`)).status).toBe(200)
  await Promise.all(flood.map(({ closed }) => closed))
  await api.close()
})
