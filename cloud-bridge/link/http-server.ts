import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { BrimError, toErrorJson } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { allows } from '../identity/access.ts'
import { bearerOf, type Gate } from '../identity/gate.ts'
import type { Certificate } from './certificate.ts'
import { listen } from './listen.ts'

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
  /** Asks for a bearer token at the others. */
  readonly gate?: Gate | undefined
  /** Path → what answers a POST, given its JSON body and the address that it came from; what it throws is the answer too. */
  readonly posts?: Readonly<Record<string, (body: unknown, from: string) => unknown>>
  /** Path → who answers requests of any method there and below. */
  readonly handlers?: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => void>>
  /** Of these paths those that may be read by whoever may read: a GET of them changes nothing. */
  readonly readable?: readonly string[]
  /** Path → who answers a GET there and below; devices may ask too. */
  readonly files?: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => void>>
  /** Path → who takes over the socket. */
  readonly upgrades: Readonly<Record<string, (request: IncomingMessage, socket: Duplex, head: Buffer) => void>>
  readonly logger: Logger
}

export interface HttpServer {
  readonly port: number
  close(): Promise<void>
}

/** Bodies are small JSON. */
const maxBodyBytes = 16 * 1024
/** How long a request that is under way may take to end at shutdown. */
const closeTimeoutMs = 1_000

/**
 * The bridge's HTTP: JSON over GET and POST, and WebSocket upgrades. A browser page has no business here: what it sends has an
 * Origin, or (DNS rebinding) a foreign Host, and is refused.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startHttpServer(options: HttpOptions): Promise<HttpServer> {
  const {
    host,
    port,
    routes,
    posts = {},
    handlers = {},
    files = {},
    upgrades,
    certificate,
    gate,
    open = [],
    readable = [],
    logger,
  } = options
  const isForeign = (request: IncomingMessage) => comesFromPage(request) || (isLoopback(host) && !isMeant(request))
  const may = (request: IncomingMessage, to: 'read' | 'operate' | 'fetch') =>
    !gate?.asks || allows(gate.subjectOf(bearerOf(request.headers.authorization) ?? '') ?? '', { to })
  const mayRead = (request: IncomingMessage) => open.includes(pathOf(request)) || may(request, 'read')
  const answerBy = async (route: () => unknown, response: ServerResponse) => {
    try {
      answer(response, 200, await route())
    } catch (err) {
      if (err instanceof BrimError) return answer(response, statusOf(err), toErrorJson(err))
      logger.error({ err }, 'HTTP request failed')
      answer(response, 500, { error: { code: 'INTERNAL', message: 'the bridge failed; its log says why' } })
    }
  }
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const path = pathOf(request)
    const [route, post] = [routes[path], posts[path]]
    const below = (all: NonNullable<HttpOptions['handlers']>) =>
      Object.entries(all).find(([at]) => path === at || path.startsWith(`${at}/`)) ?? []
    const [[handled = '', handle], [, send]] = [below(handlers), below(files)]
    const isRead = request.method === 'GET' && readable.includes(handled)
    if (isForeign(request)) answer(response, 403, { error: { code: 'REQUEST_INVALID', message: 'not for web pages' } })
    else if (post && request.method !== 'POST')
      answer(response, 405, { error: { code: 'REQUEST_INVALID', message: 'POST only' } })
    else if (post) void answerBy(async () => post(await bodyOf(request), request.socket.remoteAddress ?? ''), response)
    else if (handle && isRead && !may(request, 'read'))
      answer(response, 401, { error: { code: 'NOT_AUTHORIZED', message: 'not without a key that may read' } })
    else if (handle && !isRead && !may(request, 'operate'))
      answer(response, 401, { error: { code: 'NOT_AUTHORIZED', message: 'not without the key of an operator' } })
    else if (handle) handle(request, response)
    else if (send && request.method !== 'GET') answer(response, 405, { error: { code: 'REQUEST_INVALID', message: 'GET only' } })
    else if (send && !may(request, 'fetch'))
      answer(response, 401, { error: { code: 'NOT_AUTHORIZED', message: 'not for everybody' } })
    else if (send) send(request, response)
    else if (!route) answer(response, 404, { error: { code: 'REQUEST_INVALID', message: 'no such path' } })
    else if (request.method !== 'GET') answer(response, 405, { error: { code: 'REQUEST_INVALID', message: 'GET only' } })
    else if (!mayRead(request)) answer(response, 401, { error: { code: 'NOT_AUTHORIZED', message: 'not for everybody' } })
    else void answerBy(route, response)
  }
  const server = certificate ? createTlsServer(certificate.current, serve) : createServer(serve)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const upgrade = upgrades[pathOf(request)]
    socket.on('error', () => socket.destroy())
    if (isForeign(request)) socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n')
    else if (!upgrade) socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n')
    else upgrade(request, socket, head)
  })
  const bound = await listen(server, { host, port, what: 'HTTP server', flag: '--http-port', guarded: gate?.asks === true })
  return {
    port: bound,
    async close() {
      const closed = once(server, 'close')
      server.close()
      const impatience = setTimeout(() => server.closeAllConnections(), closeTimeoutMs)
      await closed
      clearTimeout(impatience)
    },
  }
}

/** @throws BrimError REQUEST_INVALID */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > maxBodyBytes) throw new BrimError('REQUEST_INVALID', `the body is longer than ${maxBodyBytes} bytes`)
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    throw new BrimError('REQUEST_INVALID', 'the body is no JSON')
  }
}

function statusOf({ code }: BrimError): number {
  if (code === 'REQUEST_INVALID') return 400
  return code === 'NOT_AUTHORIZED' ? 401 : 403
}

const pathOf = (request: IncomingMessage) => (request.url ?? '/').split('?', 1)[0] ?? '/'

const comesFromPage = (request: IncomingMessage): boolean => request.headers.origin !== undefined

/** Whether this machine is what the request was sent to. */
function isMeant(request: IncomingMessage): boolean {
  const host = (request.headers.host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  return isLoopback(host)
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(`${JSON.stringify(body)}\n`)
}
