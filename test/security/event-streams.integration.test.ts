import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { describe, expect, it } from 'vitest'
import type { Certificate } from '../../cloud-bridge/http/certificate.ts'
import { batchOf, type EventSource } from '../../cloud-bridge/http/event-streams.ts'
import type { Routes } from '../../cloud-bridge/http/router.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { startTestHttp } from '../support/http.ts'

const watch = { method: 'GET', path: '/watch', access: 'open', summary: '' } as const satisfies Operation
const watching =
  (source: EventSource): Routes =>
  (router) =>
    router.serve(watch, ({ events }) => events(source))
const request = 'GET /watch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'

const pem = (name: string) => readFileSync(new URL(`../fixtures/tls/first.${name}.pem`, import.meta.url), 'utf8')
const certificate: Certificate = { current: { cert: pem('cert'), key: pem('key') }, onChange() {}, close() {} }

/** Bytes that the kernel keeps for each connection to a port, which its client has not received. */
function unreadBytes(port: number): number[] {
  const rows = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)
  return rows.flatMap((row) => {
    const [, local = '', , , queues = ''] = row.trim().split(/\s+/)
    return local.endsWith(`:${port.toString(16).toUpperCase().padStart(4, '0')}`)
      ? [Number.parseInt(queues.split(':')[0]!, 16)]
      : []
  })
}

describe.skipIf(process.platform !== 'linux')('watchers that never read', () => {
  it.each(['plain', 'TLS'])("keep little of the kernel's memory each, and are disconnected: %s", async (kind) => {
    let written = 0
    const event = 'x'.repeat(16 * 1024)
    const endless: EventSource = {
      next() {
        written += 1
        return { events: [{ data: event }], after: 'more' }
      },
      subscribe: () => () => {},
    }
    const clock = fakeClock()
    await using http = await startTestHttp([watching(endless)], { clock, ...(kind === 'TLS' ? { certificate } : {}) })
    const sockets = Array.from({ length: 20 }, (): Socket => {
      const socket =
        kind === 'TLS'
          ? connectTls({ port: http.port, host: '127.0.0.1', rejectUnauthorized: false })
          : connect(http.port, '127.0.0.1')
      socket.on('error', () => {})
      socket.once(kind === 'TLS' ? 'secureConnect' : 'connect', () => socket.pause().write(request))
      return socket
    })
    let before = 0
    const writtenSince = () => {
      const more = written - before
      before = written
      return more
    }
    await expect.poll(() => written).toBeGreaterThan(sockets.length)
    await expect.poll(writtenSince, { interval: 200 }).toBe(0)
    expect(Math.max(...unreadBytes(http.port))).toBeLessThan(256 * 1024)
    for (let beats = 0; beats < 3; beats++) await clock.advance(15_000)
    await expect.poll(() => unreadBytes(http.port).filter((bytes) => bytes > 0).length).toBe(0)
    for (const socket of sockets) socket.destroy()
  })
})

it('all clients together cannot open more event streams than the bridge has', async () => {
  const source = { next: () => batchOf([]), subscribe: () => () => {} }
  await using http = await startTestHttp([watching(source)], { eventStreams: { total: 2, perClient: 9 } })
  const first = new AbortController()
  const open = [await fetch(`${http.url}/watch`, { signal: first.signal }), await http.get('/watch')]
  expect(open.map(({ status }) => status)).toEqual([200, 200])
  expect(await (await http.get('/watch')).json()).toMatchObject({ error: { code: 'QUOTA_EXCEEDED' } })
  first.abort()
  await expect.poll(async () => (await http.get('/watch')).status).toBe(200)
})
