import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Logger } from '../../core/base/logger.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { listen } from './listen.ts'

export interface HttpOptions {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** Path → what a GET of it answers, as JSON. */
  readonly routes: Readonly<Record<string, () => unknown>>
  /** Path → who takes over the socket. */
  readonly upgrades: Readonly<Record<string, (request: IncomingMessage, socket: Duplex, head: Buffer) => void>>
  readonly logger: Logger
}

export interface HttpServer {
  readonly port: number
  close(): Promise<void>
}

/** How long a request that is under way may take to end at shutdown. */
const closeTimeoutMs = 1_000

/**
 * The bridge's HTTP: JSON over GET, and WebSocket upgrades. A browser page has no business here: what it sends has an
 * Origin, or (DNS rebinding) a foreign Host, and is refused.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startHttpServer({ host, port, routes, upgrades, logger }: HttpOptions): Promise<HttpServer> {
  const answerBy = (route: () => unknown, response: ServerResponse) => {
    try {
      answer(response, 200, route())
    } catch (err) {
      logger.error({ err }, 'HTTP request failed')
      answer(response, 500, { error: { code: 'INTERNAL', message: 'the bridge failed; its log says why' } })
    }
  }
  const server = createServer((request, response) => {
    const route = routes[pathOf(request)]
    if (isForeign(request)) answer(response, 403, { error: { code: 'REQUEST_INVALID', message: 'not for web pages' } })
    else if (!route) answer(response, 404, { error: { code: 'REQUEST_INVALID', message: 'no such path' } })
    else if (request.method !== 'GET') answer(response, 405, { error: { code: 'REQUEST_INVALID', message: 'GET only' } })
    else answerBy(route, response)
  })
  server.on('upgrade', (request, socket, head) => {
    const upgrade = upgrades[pathOf(request)]
    socket.on('error', () => socket.destroy())
    if (isForeign(request)) socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n')
    else if (!upgrade) socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n')
    else upgrade(request, socket, head)
  })
  const bound = await listen(server, { host, port, what: 'HTTP server', flag: '--http-port' })
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

const pathOf = (request: IncomingMessage) => (request.url ?? '/').split('?', 1)[0] ?? '/'

function isForeign(request: IncomingMessage): boolean {
  const host = (request.headers.host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
  return request.headers.origin !== undefined || !isLoopback(host)
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(`${JSON.stringify(body)}\n`)
}
