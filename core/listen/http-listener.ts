import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import { guardListener, type ListenerGuardOptions, type ListenerLimits } from './guard-listener.ts'

export interface HttpLimits {
  readonly connections: ListenerLimits
  /** For a complete request, its body included. */
  readonly requestMs: number
  /** For a client that neither reads nor writes while its request is under way; 0: no limit. */
  readonly stalledMs: number
}

/** How often Node looks for requests that take too long. */
const maxCheckIntervalMs = 2_000

/** Time limits of an HTTP server, for its constructor. */
export function httpTimeLimits({ connections: { firstRequestMs }, requestMs }: HttpLimits): ServerOptions {
  return {
    headersTimeout: Math.min(firstRequestMs, requestMs),
    requestTimeout: requestMs,
    connectionsCheckingInterval: Math.min(maxCheckIntervalMs, requestMs / 2),
  }
}

type HttpListenerOptions = Omit<ListenerGuardOptions, 'limits'> & { readonly limits?: HttpLimits | undefined }

/** Bounds the connections of an HTTP server. An upgrade counts as a request that does not end. */
export function guardHttpListener(server: Server, { limits, ...options }: HttpListenerOptions): void {
  if (limits) server.setTimeout(limits.stalledMs)
  const guard = guardListener(server, { ...options, limits: limits?.connections })
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    guard.receiveHeaders(socket)
    response.once('close', () => guard.endRequest(socket))
    if (!hasBody(request)) return guard.beginRequest(socket)
    // A body that does not come must not keep its connection from being replaced.
    request.once('end', () => {
      if (!response.writableEnded) guard.beginRequest(socket)
    })
  })
  server.on('upgrade', ({ socket }: IncomingMessage) => guard.beginRequest(socket))
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
