import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect as connectPlain } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { errorReply } from '../../core/answer/api/http-errors.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { sendRequest } from '../../core/kit/base/http-client.ts'
import { KeptConnections } from '../../core/kit/base/kept-connections.ts'
import { isLoopback } from '../../core/kit/base/loopback.ts'
import { connectPinned, type Dial } from '../../core/kit/base/pinned-socket.ts'
import { guardHttpListener } from '../../core/kit/listen/http-listener.ts'
import { listen, urlHost } from '../../core/kit/listen/listen.ts'
import { openSockets } from '../http/open-sockets.ts'
import { refuseUpgrade } from '../http/refuse-upgrade.ts'
import { createNodeServer } from '../http/server.ts'
import type { Access } from '../parts/access.ts'
import type { Base } from '../parts/base.ts'
import type { Network } from '../parts/network.ts'
import type { Primary } from './fleet-database.ts'

const noPrimary = errorReply(
  new BrimError('NO_PRIMARY', 'no bridge of this fleet is the primary now: another one takes over within seconds', {
    retryAfterMs: 1_000,
  }),
  () => 503,
  undefined,
)
const forwardedHeader = 'brim-forwarded'

export interface Forwarder {
  readonly url: string
  readonly port: number
  /** Another node is the primary: requests that the one before has not answered fail, since it may be silent for ever. */
  onPrimaryChange(): void
  close(): Promise<void>
}

/**
 * Passes every request on to the primary, which authorizes it: the HTTP API is the same at every bridge.
 * @param primary undefined: there is none now
 * @throws BrimError LISTEN_*
 */
export async function startForwarder(
  { config, clock, logger }: Pick<Base, 'config' | 'clock' | 'logger'>,
  { listeners, proxies }: Pick<Network, 'listeners' | 'proxies'>,
  certificate: Access['certificate'],
  primary: () => Primary | undefined,
): Promise<Forwarder> {
  const { host, httpPort } = config
  const connections = new KeptConnections()
  const dials = new Map<string, Dial>()
  const underWay = new Set<AbortController>()

  function dialOf({ pin }: Primary): Dial | undefined {
    if (pin === null) return undefined
    const known = dials.get(pin) ?? ((url, signal) => connectPinned(url, [pin], signal))
    dials.set(pin, known)
    return known
  }

  /** Where a request goes, and its headers. @throws Error where it goes nowhere */
  function targetOf({ url: path = '/', headers, socket }: IncomingMessage, to: Primary | undefined) {
    if (!to) throw new Error('there is no primary')
    if (!to.auth && !isLoopback(host))
      throw new Error('the primary accepts every caller, and this bridge listens beyond loopback')
    // Two that each take the other for the primary would pass it on for ever.
    if (headers[forwardedHeader] !== undefined) throw new Error('forwarded by a bridge that takes this one for the primary')
    const target = new URL(path, to.url)
    // A path like //host would be another server.
    if (target.origin !== new URL(to.url).origin) throw new Error('not a path of this server')
    const clients = [headers['x-forwarded-for'], socket.remoteAddress].flat().filter((each) => each !== undefined)
    return { target, headers: { ...headers, 'x-forwarded-for': clients.join(', '), [forwardedHeader]: '1' } }
  }

  async function forward(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const stopping = new AbortController()
    underWay.add(stopping)
    response.once('close', () => {
      underWay.delete(stopping)
      stopping.abort(new BrimError('CANCELED', 'the client has left'))
    })
    try {
      const to = primary()
      const { target, headers } = targetOf(incoming, to)
      const { method } = incoming
      // Without a body the request may be sent again, where an idle connection has just been closed.
      const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
      const answer = await sendRequest(target, {
        ...(method && { method }),
        ...(hasBody && { body: incoming }),
        headers,
        signal: stopping.signal,
        connections,
        dial: dialOf(to!),
      })
      response.writeHead(answer.statusCode!, answer.statusMessage, answer.headers)
      answer.once('error', () => response.destroy()).pipe(response)
    } catch (err) {
      logger.debug({ err }, 'request not forwarded')
      if (response.headersSent) return void response.destroy()
      // The rest of its body goes nowhere.
      incoming.unpipe()
      incoming.resume()
      const { status, headers, body } = noPrimary
      response
        .writeHead(status, { ...headers, connection: 'close', 'content-type': 'application/json' })
        .end(JSON.stringify(body))
    }
  }

  /** From its first line on, the connection is the primary's: its bytes pass as they are. */
  async function forwardUpgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    const stopping = new AbortController()
    underWay.add(stopping)
    socket.once('close', () => {
      underWay.delete(stopping)
      stopping.abort(new BrimError('CANCELED', 'the client has left'))
    })
    try {
      const to = primary()
      const { target, headers } = targetOf(incoming, to)
      const { hostname, port, protocol } = target
      const at = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (protocol === 'https:' ? 443 : 80) }
      const upgraded =
        (await dialOf(to!)?.(target.href, stopping.signal)) ?? (protocol === 'https:' ? connectTls(at) : connectPlain(at))
      upgraded.once('error', () => socket.destroy()).once('close', () => socket.destroy())
      if (stopping.signal.aborted) return void upgraded.destroy()
      stopping.signal.addEventListener('abort', () => upgraded.destroy(), { once: true })
      const lines = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((each) => `${name}: ${each}\r\n`))
      upgraded.write(`${incoming.method} ${target.pathname}${target.search} HTTP/1.1\r\n${lines.join('')}\r\n`)
      upgraded.write(head)
      upgraded.pipe(socket).pipe(upgraded)
    } catch (err) {
      logger.debug({ err }, 'WebSocket not forwarded')
      refuseUpgrade(socket, '503 Service Unavailable')
    }
  }

  const server = createNodeServer((incoming, response) => void forward(incoming, response), certificate, listeners.http)
  const guard = guardHttpListener(server, { limits: listeners.http, what: 'HTTP', proxies, clock, logger })
  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!guard.assign(incoming.socket, proxies.clientOf(incoming))) return void socket.destroy()
    guard.beginRequest(incoming.socket)
    void forwardUpgrade(incoming, socket, head)
  })
  const sockets = openSockets(server)
  const port = await listen(server, { host, port: httpPort, what: 'HTTP server', flag: '--http-port', authRequired: true })
  return {
    port,
    url: `${certificate ? 'https' : 'http'}://${urlHost(host)}:${port}`,
    onPrimaryChange() {
      for (const stopping of underWay) stopping.abort(new Error('another bridge is the primary'))
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
