import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { type Call, type Callers, everybody, type Need } from '../identity/callers.ts'
import { addressOf } from '../identity/gate.ts'
import type { Certificate } from './certificate.ts'
import { answer, answerError, bodyOf } from './json.ts'
import { listen } from './listen.ts'
import { refuseUpgrade } from './refuse-upgrade.ts'

/** Answers requests of any method, at a path and below. */
export interface Handler {
  /** What it throws is the answer, or breaks one off that has begun. */
  handle(request: IncomingMessage, response: ServerResponse, call: Call): void | Promise<void>
  /** What a request needs; absent: to operate. */
  needs?(request: IncomingMessage): Need
}

export interface HttpOptions {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** Path → what a GET of it answers, as JSON. */
  readonly routes: Readonly<Record<string, () => unknown>>
  /** Of these paths those that anybody may GET. */
  readonly open?: readonly string[]
  /** Speaks TLS. */
  readonly certificate?: Certificate | undefined
  /** Who may do what at the others. */
  readonly callers?: Callers | undefined
  /** Path → what answers a POST, given its JSON body and the address that it came from; what it throws is the answer too. */
  readonly posts?: Readonly<Record<string, (body: unknown, from: string, request: IncomingMessage) => unknown>>
  /** Path → how large the body of a POST may be where 16 KiB are too few. */
  readonly bodyLimits?: Readonly<Record<string, number>>
  /** Path → who answers requests of any method there and below. What is no GET stands in the audit log. */
  readonly handlers?: Readonly<Record<string, Handler>>
  /** Path → who takes over the socket. */
  readonly upgrades: Readonly<Record<string, (request: IncomingMessage, socket: Duplex, head: Buffer) => void>>
  readonly logger: Logger
}

export interface HttpServer {
  readonly port: number
  close(): Promise<void>
}

/** What is noted of a request whose sender has not waited for the answer (as nginx does). */
const clientClosedRequest = 499
/** How long a request that is under way may take to end at shutdown. */
const closeTimeoutMs = 1_000

/**
 * The bridge's HTTP: JSON over GET and POST, and WebSocket upgrades. A browser page has no business here: what it sends has an
 * Origin, or (DNS rebinding) a foreign Host, and is refused.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startHttpServer(options: HttpOptions): Promise<HttpServer> {
  const { callers = everybody, posts = {}, bodyLimits = {}, handlers = {}, open = [] } = options
  const { host, port, routes, upgrades, certificate, logger } = options
  const isForeign = (request: IncomingMessage) => comesFromPage(request) || (isLoopback(host) && !isMeant(request))
  const fail = (err: unknown, response: ServerResponse) => {
    if (!(err instanceof BrimError)) logger.error({ err }, 'HTTP request failed')
    if (response.headersSent) response.destroy()
    else if (err instanceof BrimError) answerError(response, err)
    else answer(response, 500, { error: { code: 'INTERNAL', message: 'the bridge failed; its log says why' } })
  }
  const answerBy = async (route: () => unknown, response: ServerResponse) => {
    try {
      answer(response, 200, await route())
    } catch (err) {
      fail(err, response)
    }
  }
  const handleBy = (handler: Handler, request: IncomingMessage, response: ServerResponse) => {
    const call = callers.admit(request, handler.needs?.(request) ?? 'operate')
    call.cutBy(() => response.destroy())
    response.once('close', () => call.ended(response.headersSent ? response.statusCode : clientClosedRequest))
    const answered = async () => handler.handle(request, response, call)
    answered().catch((err: unknown) => fail(err, response))
  }
  const dispatch = (request: IncomingMessage, response: ServerResponse) => {
    const path = pathOf(request)
    const [route, post] = [routes[path], posts[path]]
    const [, handler] = Object.entries(handlers).find(([at]) => path === at || path.startsWith(`${at}/`)) ?? []
    if (isForeign(request)) answer(response, 403, { error: { code: 'REQUEST_INVALID', message: 'not for web pages' } })
    else if (post && request.method !== 'POST')
      answer(response, 405, { error: { code: 'REQUEST_INVALID', message: 'POST only' } })
    else if (post) {
      void answerBy(async () => post(await bodyOf(request, bodyLimits[path]), addressOf(request), request), response)
    } else if (handler) handleBy(handler, request, response)
    else if (!route) answer(response, 404, { error: { code: 'REQUEST_INVALID', message: 'no such path' } })
    else if (request.method !== 'GET') answer(response, 405, { error: { code: 'REQUEST_INVALID', message: 'GET only' } })
    else {
      if (!open.includes(path)) callers.admit(request, 'read')
      void answerBy(route, response)
    }
  }
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    try {
      dispatch(request, response)
    } catch (error) {
      fail(error, response)
    }
  }
  const server = certificate ? createTlsServer(certificate.current, serve) : createServer(serve)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const upgrade = upgrades[pathOf(request)]
    socket.on('error', () => socket.destroy())
    if (isForeign(request)) refuseUpgrade(socket, '403 Forbidden')
    else if (!upgrade) refuseUpgrade(socket, '404 Not Found')
    else upgrade(request, socket, head)
  })
  const sockets = new Set<Socket>()
  // Those in a TLS handshake, and those that were taken over, too: the server knows neither.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const bound = await listen(server, { host, port, what: 'HTTP server', flag: '--http-port', guarded: callers.asks })
  return {
    port: bound,
    async close() {
      const closed = once(server, 'close')
      server.close()
      const impatience = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, closeTimeoutMs)
      await closed
      clearTimeout(impatience)
    },
  }
}

const pathOf = (request: IncomingMessage) => (request.url ?? '/').split('?', 1)[0] ?? '/'

const comesFromPage = (request: IncomingMessage): boolean => request.headers.origin !== undefined

/** Whether this machine is what the request was sent to. */
function isMeant(request: IncomingMessage): boolean {
  const host = (request.headers.host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  return isLoopback(host)
}
