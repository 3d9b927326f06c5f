import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { guardListener, type ListenerGuard, type ListenerGuardOptions, type ListenerLimits } from './guard-listener.ts'

export interface HttpLimits {
  readonly connections: ListenerLimits
  /** For a complete request, its body included. */
  readonly requestMs: number
  /** For a client that neither sends the rest of its request nor reads what the server has sent; 0: no limit. */
  readonly stalledMs: number
}

/** From opening a connection to the headers of its first request (of MQTT: to its CONNECT), TLS included. */
export const firstRequestMs = 15_000
/** For a complete request, its body included. */
export const requestMs = 60_000
/** How often Node looks for requests that take too long. */
const maxCheckIntervalMs = 2_000

/** TCP then asks whether the client is still there. One that waits for its response has nothing to send. */
const keepAliveInitialDelay = 60_000

export function httpTimeLimits({ connections: { firstRequestMs }, requestMs }: HttpLimits): ServerOptions {
  return {
    headersTimeout: Math.min(firstRequestMs, requestMs),
    requestTimeout: requestMs,
    connectionsCheckingInterval: Math.min(maxCheckIntervalMs, requestMs / 2),
    keepAlive: true,
    keepAliveInitialDelay,
  }
}

type HttpListenerOptions = Omit<ListenerGuardOptions, 'limits'> & { readonly limits?: HttpLimits | undefined }

/** Bounds the connections of an HTTP server. @returns what the server tells of connections that are upgraded */
export function guardHttpListener(
  server: Server,
  { limits, ...options }: HttpListenerOptions,
): Pick<ListenerGuard, 'assign' | 'beginRequest'> {
  if (limits) server.setTimeout(limits.stalledMs)
  const guard = guardListener(server, { ...options, limits: limits?.connections })
  /** Complete requests → their responses. */
  const responses = new Map<Socket, ServerResponse>()
  const begin = (socket: Socket, response: ServerResponse) => {
    guard.beginRequest(socket)
    responses.set(socket, response)
  }
  // Without this listener Node closes the connection.
  server.on('timeout', (socket) => {
    // A client that has read everything waits for the server, however long that takes: an answer in a queue, for instance.
    if (responses.get(socket)?.writableLength === 0) socket.setTimeout(server.timeout)
    else socket.destroy()
  })
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    guard.receiveHeaders(socket)
    response.once('close', () => {
      guard.endRequest(socket)
      if (responses.get(socket) === response) responses.delete(socket)
    })
    if (!hasBody(request)) return begin(socket, response)
    // A body that does not come must not keep its connection from being replaced.
    request.once('end', () => {
      if (!response.writableEnded) begin(socket, response)
    })
  })
  return guard
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
