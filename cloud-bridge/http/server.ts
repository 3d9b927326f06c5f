import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { type FastifyError, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { requestIdOf } from '../../core/api/request-id.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { guardHttpListener, type HttpLimits, httpTimeLimits } from '../../core/listen/http-listener.ts'
import type { Operation } from '../../core/protocol/http/operation.ts'
import { type Authorizer, openToAll } from '../identity/authorizer.ts'
import type { Certificate } from './certificate.ts'
import { errorReply, ownError, RequestRefused } from './errors.ts'
import { EventStreams } from './event-streams.ts'
import { listen } from './listen.ts'
import { openSockets } from './open-sockets.ts'
import { refuseUpgrade } from './refuse-upgrade.ts'
import { createRouter, type Routes } from './router.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly errors?: Operation['errors']
  }
}

export type Upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

export interface HttpOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly routes: readonly Routes[]
  /** Path → handler of its WebSocket upgrades. */
  readonly upgrades?: Readonly<Record<string, Upgrade>>
  /** Absent: plain text. */
  readonly certificate?: Certificate | undefined
  /** Absent: every caller may do everything. */
  readonly authorizer?: Pick<Authorizer, 'authRequired' | 'authorize'>
  /** Absent: no limits. */
  readonly limits?: HttpLimits | undefined
  /** Of one API key, or of one network without a key. Absent: no limit. */
  readonly eventStreamsPerClient?: number
  /** Maximum values in the JSON of a body. Absent: no limit. */
  readonly jsonValues?: number
  readonly clock: Clock
  readonly logger: Logger
}

export interface HttpServer {
  readonly port: number
  close(): Promise<void>
}

/** Time limit for requests under way at shutdown. */
const closeTimeoutMs = 1_000
/** Longer than any URL that Node accepts: an unknown id of any length is unknown, not too long. */
const maxParamLength = 16 * 1024

/**
 * The bridge's HTTP server: JSON operations, server-sent events and WebSocket upgrades. It refuses browser pages, which send
 * an Origin or (DNS rebinding) a foreign Host.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startHttpServer(options: HttpOptions): Promise<HttpServer> {
  const {
    host,
    port,
    routes,
    upgrades = {},
    certificate,
    authorizer = openToAll,
    limits,
    eventStreamsPerClient,
    jsonValues = Number.POSITIVE_INFINITY,
    clock,
    logger,
  } = options
  const streams = new EventStreams(clock, eventStreamsPerClient)
  const stopping = new AbortController()

  function refuse(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
    const own = ownError(error, request.routeOptions.bodyLimit)
    if (!(own instanceof BrimError)) logger.error({ err: own, request: request.id }, 'HTTP request failed')
    const { status, headers, body } = errorReply(own, request.routeOptions.config?.errors)
    if (reply.raw.headersSent) reply.raw.destroy()
    else void reply.code(status).headers(headers).send(body)
  }

  const app = fastify({
    serverFactory: (handler) => createNodeServer(handler, certificate, limits),
    exposeHeadRoutes: false,
    genReqId: requestIdOf,
    frameworkErrors: refuse,
    routerOptions: { maxParamLength },
  })
  app.setReplySerializer((body) => `${JSON.stringify(body)}\n`)
  app.setErrorHandler(refuse)
  app.addHook('onRequest', async (request, reply) => {
    // Where streams find it too: they bypass Fastify.
    reply.raw.setHeader('x-request-id', request.id)
    void reply.header('cache-control', 'no-store')
    if (isForeign(request.raw, host)) throw new RequestRefused(403, 'not for web pages')
  })
  const router = createRouter(app, { authorize: authorizer.authorize, streams, stopping: stopping.signal, jsonValues })
  for (const addRoutes of routes) addRoutes(router)
  await app.ready()

  const { server } = app
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const upgrade = upgrades[request.url?.split('?', 1)[0] ?? '']
    socket.on('error', () => socket.destroy())
    if (isForeign(request, host)) refuseUpgrade(socket, '403 Forbidden')
    else if (!upgrade) refuseUpgrade(socket, '404 Not Found')
    else upgrade(request, socket, head)
  })
  const sockets = openSockets(server)
  guardHttpListener(server, { limits, what: 'HTTP', clock, logger })
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

function createNodeServer(
  handler: RequestListener,
  certificate: Certificate | undefined,
  limits: HttpLimits | undefined,
): Server {
  const options = limits ? httpTimeLimits(limits) : {}
  const server = certificate ? createTlsServer({ ...options, ...certificate.current }, handler) : createServer(options, handler)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  return server
}

function isForeign({ headers }: IncomingMessage, host: string): boolean {
  if (headers.origin !== undefined) return true
  const named = (headers.host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  return isLoopback(host) && !isLoopback(named)
}
