import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { errorReply } from '../../core/answer/api/http-errors.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { guardHttpListener } from '../../core/kit/listen/http-listener.ts'
import { listen, urlHost } from '../../core/kit/listen/listen.ts'
import { dataPath } from '../../core/wire/protocol/messages.ts'
import { openSockets } from '../http/open-sockets.ts'
import { refuseUpgrade } from '../http/refuse-upgrade.ts'
import { createNodeServer } from '../http/server.ts'
import type { Access } from '../parts/access.ts'
import type { Base } from '../parts/base.ts'
import type { Network } from '../parts/network.ts'
import type { StandbyAnswers } from '../parts/standby-answers.ts'
import type { Primary } from './fleet-database.ts'
import type { NodeLinks } from './node-links.ts'
import type { OtherNodes } from './other-nodes.ts'

const noPrimary = errorReply(
  new BrimError('NO_PRIMARY', 'no bridge of this fleet is the primary now: another one takes over within seconds', {
    retryAfterMs: 1_000,
  }),
  () => 503,
  undefined,
)
export interface Forwarder {
  readonly url: string
  readonly port: number
  /** Another node is the primary: requests that the one before has not answered fail, since it may be silent for ever. */
  onPrimaryChange(): void
  close(): Promise<void>
}

/**
 * Passes every request on to the primary, which authorizes it: the HTTP API is the same at every bridge. But what can be answered here is,
 * and devices' links are served here, or where they are placed.
 * @param primary undefined: there is none now
 * @throws BrimError LISTEN_*
 */
export async function startForwarder(
  { config, clock, logger }: Pick<Base, 'config' | 'clock' | 'logger'>,
  { listeners, proxies }: Pick<Network, 'listeners' | 'proxies'>,
  certificate: Access['certificate'],
  others: OtherNodes,
  links: Pick<NodeLinks, 'upgrade'>,
  answers: Pick<StandbyAnswers, 'accepts' | 'handle' | 'passOnBy'>,
  primary: () => Primary | undefined,
): Promise<Forwarder> {
  const { host, httpPort } = config
  const underWay = new Set<AbortController>()

  /** Aborted when the client has left, or another node has become the primary. */
  function follow(client: ServerResponse | Duplex): AbortSignal {
    const stopping = new AbortController()
    underWay.add(stopping)
    client.once('close', () => {
      underWay.delete(stopping)
      stopping.abort(new BrimError('CANCELED', 'the client has left'))
    })
    return stopping.signal
  }

  function requirePrimary(): Primary {
    const to = primary()
    if (!to) throw new Error('there is no primary')
    return to
  }

  /** @param body where it has been read */
  async function forward(incoming: IncomingMessage, response: ServerResponse, body?: string): Promise<void> {
    const signal = follow(response)
    try {
      const answer = await others.send(incoming, requirePrimary(), signal, body)
      const { connection: _, ...headers } = answer.headers
      response.writeHead(answer.statusCode!, answer.statusMessage, headers)
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

  async function forwardUpgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const signal = follow(socket)
    try {
      await others.pass(incoming, socket, head, requirePrimary(), signal)
    } catch (err) {
      logger.debug({ err }, 'WebSocket not forwarded')
      refuseUpgrade(socket, '503 Service Unavailable')
    }
  }

  function respond(incoming: IncomingMessage, response: ServerResponse): void {
    if (!answers.accepts(incoming)) return void forward(incoming, response)
    const peer = peerOf(incoming.socket)
    kept.add(peer)
    response.once('close', () => {
      kept.delete(peer)
      // The next request is for the primary that this process has become.
      if (!server.listening) incoming.socket.destroySoon()
    })
    answers.handle(incoming, response)
  }

  answers.passOnBy(forward)
  const server = createNodeServer(respond, certificate, listeners.http)
  const guard = guardHttpListener(server, { limits: listeners.http, what: 'HTTP', proxies, clock, logger })
  /** They stay when this node becomes the primary, by the address of their clients: with TLS, the server has two sockets for one. */
  const kept = new Set<string>()
  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    const address = proxies.clientOf(incoming)
    if (!guard.assign(incoming.socket, address)) return void socket.destroy()
    const onAccepted = () => guard.beginRequest(incoming.socket)
    if (incoming.url?.split('?', 1)[0] === dataPath) {
      const peer = peerOf(incoming.socket)
      kept.add(peer)
      socket.once('close', () => kept.delete(peer))
      return links.upgrade(incoming, socket, head, { address, onAccepted })
    }
    onAccepted()
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
      server.close()
      const left = [...sockets].filter((socket) => !kept.has(peerOf(socket)))
      const closed = left.map((socket) => once(socket, 'close'))
      for (const socket of left) socket.destroy()
      await Promise.all(closed)
    },
  }
}

const peerOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
