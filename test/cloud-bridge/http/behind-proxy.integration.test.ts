import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { z } from 'zod'
import { type EmbeddedBroker, startEmbeddedBroker } from '../../../cloud-bridge/broker/embedded-broker.ts'
import type { Routes } from '../../../cloud-bridge/http/router.ts'
import { BridgeLimits } from '../../../cloud-bridge/limits.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { Proxies } from '../../../core/kit/listen/proxies.ts'
import { mqttPath, mqttSubprotocol } from '../../../core/wire/protocol/mqtt-url.ts'
import { closed, mqttClient } from '../../support/broker.ts'
import { startTestHttp, type TestHttp } from '../../support/http.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const whoami = { method: 'GET', path: '/from', access: 'open', summary: '', response: z.object({ from: z.string() }) } as const
const routes: Routes = (router) => router.serve(whoami, ({ from }) => ({ from }))
const name = 'bridge.example'

/** A bridge's listener on loopback, for two connections of each network, and a reverse proxy before it. */
let broker: EmbeddedBroker
let http: TestHttp
let proxy: Awaited<ReturnType<typeof startProxy>>
beforeEach(async () => {
  const base = { host: '127.0.0.1', clock: systemClock, logger: silentLogger() }
  broker = await startEmbeddedBroker({ ...base, port: undefined, limits: BridgeLimits.parse({}), fleet: 'default' })
  const connections = { total: 20, perNetwork: 2, waiting: 3, firstRequestMs: 60_000 }
  const limits = { connections, requestMs: 60_000, stalledMs: 60_000 }
  const proxies = new Proxies(['127.0.0.1'])
  http = await startTestHttp([routes], { ...base, limits, proxies, names: [name], upgrades: { [mqttPath]: broker.upgrade } })
  proxy = await startProxy(http.port)
})
afterEach(async () => {
  proxy?.close()
  await http?.close()
  await broker?.close()
})

const mqttFrom = (address: string, id: string, port = proxy.port) =>
  mqttClient(`ws://127.0.0.1:${port}${mqttPath}`, id, { wsOptions: { headers: { host: name, 'x-test-address': address } } })

it('a request through the proxy is one of the client that the proxy names, for the host that clients know', async () => {
  const fromProxy = (host: string) =>
    new Promise<[number | undefined, unknown]>((resolve, reject) => {
      const headers = { host, 'x-forwarded-for': '198.51.100.1', 'x-test-address': '192.0.2.7' }
      httpRequest({ port: proxy.port, path: '/from', headers }, async (response) => {
        const text = (await response.toArray()).join('')
        resolve([response.statusCode, JSON.parse(text)])
      })
        .on('error', reject)
        .end()
    })
  expect(await fromProxy(name)).toEqual([200, { from: '192.0.2.7' }])
  expect(await fromProxy('rebound.example')).toMatchObject([403, { error: { message: expect.stringMatching(/--data-url/) } }])
})

it('connections through the proxy are limited for each network of clients, not for the proxy', async () => {
  const first = await mqttFrom('192.0.2.7', 'device-1')
  const second = await mqttFrom('192.0.2.7', 'device-2')
  await expect(mqttFrom('192.0.2.7', 'device-3')).rejects.toThrow()
  const other = await mqttFrom('192.0.2.8', 'device-4')
  await first.endAsync(true)
  await expect
    .poll(() =>
      mqttFrom('192.0.2.7', 'device-5').then(
        (client) => client.connected,
        () => false,
      ),
    )
    .toBe(true)
  expect([second.connected, other.connected]).toEqual([true, true])
})

it('WebSockets without a CONNECT packet replace each other, and no client that has connected', async () => {
  const client = await mqttFrom('192.0.2.7', 'device-1', http.port)
  const silent = async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${http.port}${mqttPath}`, mqttSubprotocol)
    await once(socket, 'open')
    return socket
  }
  const oldest = await silent()
  const ended = once(oldest, 'close')
  const others = [await silent(), await silent(), await silent()]
  await ended
  expect([client.connected, ...others.map(({ readyState }) => readyState)]).toEqual([true, 1, 1, 1])
  const cut = closed(client)
  for (const socket of others) socket.terminate()
  client.end(true)
  await cut
})

/** A reverse proxy as nginx is with `proxy_add_x_forwarded_for`. Clients name their address in `x-test-address`. */
async function startProxy(port: number) {
  const sockets = new Set<Socket>()
  const forwarded = ({ headers, socket }: IncomingMessage) => ({
    ...headers,
    'x-forwarded-for': [headers['x-forwarded-for'] ?? [], headers['x-test-address'] ?? socket.remoteAddress].flat().join(', '),
  })
  const server = createServer((request, response) => {
    const to = { port, path: request.url, method: request.method, headers: forwarded(request) }
    request.pipe(
      httpRequest(to, (reply) => {
        response.writeHead(reply.statusCode!, reply.headers)
        reply.pipe(response)
      }),
    )
  })
  server.on('connection', (socket) => sockets.add(socket))
  server.on('upgrade', (request: IncomingMessage, client: Socket, head: Buffer) => {
    const target = connect(port)
    sockets.add(target)
    const lines = Object.entries(forwarded(request)).map(([header, value]) => `${header}: ${value}`)
    target.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    target.write(head)
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const)
      from
        .on('error', () => to.destroy())
        .on('close', () => to.destroy())
        .pipe(to)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
