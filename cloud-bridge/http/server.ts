import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { createHttpApp } from '../../core/answer/api/http-app.ts'
import { RequestRefused } from '../../core/answer/api/http-errors.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { isLoopback } from '../../core/kit/base/loopback.ts'
import { guardHttpListener, type HttpLimits, httpTimeLimits } from '../../core/kit/listen/http-listener.ts'
import { listen } from '../../core/kit/listen/listen.ts'
import { noProxies, type Proxies } from '../../core/kit/listen/proxies.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'
import { type Authorizer, openToAll } from '../identity/authorizer.ts'
import type { Certificate } from './certificate.ts'
import { statusFor } from './errors.ts'
import { type EventStreamLimits, EventStreams } from './event-streams.ts'
import { openSockets } from './open-sockets.ts'
import { refuseUpgrade } from './refuse-upgrade.ts'
import { createRouter, type Routes } from './router.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly errors?: Operation['errors']
  }
}

/** Of a connection that becomes a WebSocket. */
export interface UpgradeClient {
  readonly address: string
  /** The client has proven that it is one of ours: until then, its connection counts as one that waits for a request. */
  onAccepted(): void
}

export type Upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer, client: UpgradeClient) => void

export interface HttpOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly routes: readonly Routes[]
  /** Path → handler of its WebSocket upgrades. */
  readonly upgrades?: Readonly<Record<string, Upgrade>>
  /** Absent: plain text. */
  readonly certificate?: Certificate | undefined
  /** Reverse proxies in front of this server. Absent: none. */
  readonly proxies?: Proxies
  /** Host names, as in URLs, by which clients reach a server on loopback through a proxy. */
  readonly names?: readonly string[]
  /** Of web pages that may call this server. Absent: none. */
  readonly origins?: readonly string[]
  /** Absent: every caller may do everything. */
  readonly authorizer?: Pick<Authorizer, 'authRequired' | 'authorize'>
  /** Awaited before each response: what the request has stored is safe then. Absent: it is safe already. */
  readonly stored?: (() => Promise<void>) | undefined
  /** The same for what is sent later. */
  readonly after?: ((send: () => void) => void) | undefined
  /** Absent: no limits. */
  readonly limits?: HttpLimits | undefined
  /** A client is an API key, or a network without a key. Absent: no limits. */
  readonly eventStreams?: EventStreamLimits
  readonly clock: Clock
  readonly logger: Logger
}

export interface HttpServer {
  readonly port: number
  close(): Promise<void>
}

/** Time limit for requests under way at shutdown. */
const closeTimeoutMs = 1_000

/**
 * The bridge's HTTP server: JSON operations, server-sent events and WebSocket upgrades. It refuses foreign browser pages, which
 * send their Origin or (DNS rebinding) a foreign Host.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startHttpServer(options: HttpOptions): Promise<HttpServer> {
  const { host, port, upgrades = {}, certificate, proxies = noProxies, authorizer = openToAll, limits, clock, logger } = options
  const streams = new EventStreams(clock, options.eventStreams, options.after)
  const stopping = new AbortController()
  const app = await createBridgeApp({
    ...options,
    streams,
    stopping: stopping.signal,
    createServer: (handler) => createNodeServer(handler, certificate, limits),
  })

  const { server } = app
  const guard = guardHttpListener(server, { limits, what: 'HTTP', proxies, clock, logger })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const upgrade = upgrades[request.url?.split('?', 1)[0] ?? '']
    socket.on('error', () => socket.destroy())
    const address = proxies.clientOf(request)
    if (request.headers.origin !== undefined || foreignReason(request, options) !== undefined)
      refuseUpgrade(socket, '403 Forbidden')
    else if (!upgrade) refuseUpgrade(socket, '404 Not Found')
    else if (!guard.assign(request.socket, address)) socket.destroy()
    else upgrade(request, socket, head, { address, onAccepted: () => guard.beginRequest(request.socket) })
  })
  const sockets = openSockets(server)
  const bound = await listen(server, {
    host,
    port,
    what: 'HTTP server',
    flag: '--http-port',
    authRequired: authorizer.authRequired,
  })
  return {
    port: bound,
    async close() {
      const closed = once(server, 'close')
      const done = new AbortController()
      server.close()
      stopping.abort(new BrimError('CANCELED', 'the bridge is shutting down'))
      streams.endAll()
      clock.sleep(closeTimeoutMs, done.signal).then(
        () => {
          for (const socket of sockets) socket.destroy()
        },
        () => {},
      )
      await closed
      done.abort()
      await app.close()
    },
  }
}

interface BridgeAppOptions extends Omit<HttpOptions, 'port' | 'upgrades' | 'certificate' | 'after' | 'eventStreams'> {
  readonly streams: EventStreams
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal
  readonly createServer: (handler: RequestListener) => Server
}

/** What responds to the requests of a server. */
export async function createBridgeApp(options: BridgeAppOptions): Promise<FastifyInstance> {
  const { routes, proxies = noProxies, authorizer = openToAll, stored, streams, stopping } = options
  const app = createHttpApp({
    ...options,
    limits: options.limits,
    server: 'bridge',
    admit(request) {
      const reason = foreignReason(request.raw, options)
      if (reason !== undefined) throw new RequestRefused(403, reason)
    },
    readsBody: ({ routeOptions }) => routeOptions.schema?.body !== undefined,
    statusOf: (error, { routeOptions }) => statusFor(error, routeOptions.config?.errors),
    formOf: ({ routeOptions }) => routeOptions.config?.errors,
  })
  const router = createRouter(app, { authorize: authorizer.authorize, stored, streams, proxies, stopping })
  for (const addRoutes of routes) addRoutes(router)
  await app.ready()
  return app
}

/** @returns why the request is refused: a foreign web page may have sent it */
function foreignReason(
  { headers }: IncomingMessage,
  { host, names = [], origins = [] }: Pick<HttpOptions, 'host' | 'names' | 'origins'>,
): string | undefined {
  const { origin } = headers
  if (origin !== undefined && !origins.includes(origin) && !isOwnPage(origin, headers.host))
    return 'not for web pages (--allow-origin allows one)'
  const named = (headers.host ?? '').toLowerCase().replace(/:\d+$/, '')
  return !isLoopback(host) || isLoopback(named) || names.includes(named)
    ? undefined
    : 'not for web pages (behind a proxy, --data-url must name the host that clients use)'
}

/**
 * Whether the page comes from this server. Where its name was rebound to a server beyond loopback, which may have any, it still
 * lacks a key: there every request needs one.
 */
const isOwnPage = (origin: string, host = ''): boolean => URL.canParse(origin) && new URL(origin).host === host.toLowerCase()

export function createNodeServer(
  handler: RequestListener,
  certificate: Certificate | undefined,
  limits: HttpLimits | undefined,
): Server {
  const options = limits ? httpTimeLimits(limits) : {}
  const server = certificate ? createTlsServer({ ...options, ...certificate.current }, handler) : createServer(options, handler)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  return server
}
