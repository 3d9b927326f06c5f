import type { Server, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { type ConnectionCaps, ConnectionTable } from '../../policy/admission/connections.ts'
import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import { isLoopback } from '../base/loopback.ts'
import { Deadlines } from './deadlines.ts'
import { networkOf } from './network.ts'
import { noProxies, type Proxies } from './proxies.ts'

export interface ListenerLimits extends ConnectionCaps {
  /** From the opening of a connection to its CONNECT or the headers of its first request, TLS included. */
  readonly firstRequestMs: number
}

export interface ListenerGuardOptions {
  /** Absent: no limits. */
  readonly limits?: ListenerLimits | undefined
  /** Reverse proxies in front of the server. Absent: none. */
  readonly proxies?: Proxies
  /** What listens: for the log. */
  readonly what: string
  readonly clock: Clock
  readonly logger: Logger
}

/** What the server tells the guard. All take the socket of the connection, or the TLS socket over it. */
export interface ListenerGuard {
  /** From now on this connection counts as one of the client with this address. @returns false: its network has too many */
  assign(socket: Socket, address: string): boolean
  /** The headers of a request have arrived; its body may still be on the way. */
  receiveHeaders(socket: Socket): void
  /** A complete request has arrived: nothing replaces this connection until `endRequest`. */
  beginRequest(socket: Socket): void
  /** The connection waits for the next request. */
  endRequest(socket: Socket): void
}

/** One log line per interval, however many connections are closed. */
const logEveryMs = 10_000

/**
 * Bounds the connections of a server, and the time that each may wait before its first request. A proxy makes many clients one
 * address, so that the proxies and loopback are not capped per network.
 */
export function guardListener(server: Server, options: ListenerGuardOptions): ListenerGuard {
  const { limits, proxies = noProxies, what, clock, logger } = options
  // By default Node leaves a socket open whose TLS handshake has failed or timed out.
  if (server instanceof TlsServer) server.on('tlsClientError', (_error, socket) => socket.destroy())
  if (!limits) return { assign: () => true, receiveHeaders() {}, beginRequest() {}, endRequest() {} }

  /** By what connections are counted. */
  const nameOf = (address: string) => (proxies.includes(address) ? address : networkOf(address))
  const table = new ConnectionTable<Socket>(limits, (network) => !isLoopback(network) && !proxies.includes(network))
  /** A TLS socket has the ends of the socket below it, and no other link to it. */
  const byPeer = new Map<string, Socket>()
  const countClosed = closedConnectionLog({ what, clock, logger })
  /** Connections without a request so far. */
  const waiting = new Deadlines<Socket>(limits.firstRequestMs, clock, (socket) => {
    countClosed('firstRequest', socket.remoteAddress)
    socket.destroy()
  })

  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket
    const peer = peerOf(socket)
    if (remoteAddress === undefined || peer === undefined) return void socket.destroy()
    const admission = table.admit(socket, nameOf(remoteAddress))
    if ('refusedBy' in admission) {
      countClosed(admission.refusedBy, remoteAddress)
      return void socket.destroy()
    }
    if (admission.replaces) {
      countClosed('waiting', admission.replaces.remoteAddress)
      admission.replaces.destroy()
    }
    byPeer.set(peer, socket)
    waiting.add(socket)
    socket.once('close', () => {
      waiting.remove(socket)
      table.remove(socket)
      // The client may have opened the next connection from the same port before.
      if (byPeer.get(peer) === socket) byPeer.delete(peer)
    })
  })
  server.once('close', waiting.close)

  const connectionOf = (socket: Socket) => byPeer.get(peerOf(socket) ?? '')
  return {
    assign(socket, address) {
      const connection = connectionOf(socket)
      if (!connection) return false
      if (table.assign(connection, nameOf(address))) return true
      countClosed('perNetwork', address)
      return false
    },
    receiveHeaders(socket) {
      const connection = connectionOf(socket)
      if (connection) waiting.remove(connection)
    },
    beginRequest(socket) {
      const connection = connectionOf(socket)
      if (!connection) return
      waiting.remove(connection)
      table.beginRequest(connection)
    },
    endRequest(socket) {
      const connection = connectionOf(socket)
      if (connection) table.endRequest(connection)
    },
  }
}

/** @returns undefined once the socket has closed */
function peerOf({ remoteAddress, remotePort, localAddress }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`
}

type Cause = 'total' | 'perNetwork' | 'waiting' | 'firstRequest'

/** Logs how many connections were closed and why, together with one of the addresses. */
function closedConnectionLog({ what, clock, logger }: Pick<ListenerGuardOptions, 'what' | 'clock' | 'logger'>) {
  let counts: Partial<Record<Cause, number>> = {}
  let lastLogMs = Number.NEGATIVE_INFINITY
  return (cause: Cause, address: string | undefined) => {
    counts[cause] = (counts[cause] ?? 0) + 1
    if (clock.nowMs() - lastLogMs < logEveryMs) return
    lastLogMs = clock.nowMs()
    logger.warn({ listener: what, closed: counts, address }, 'connections closed at a limit of docs/limits.md')
    counts = {}
  }
}
