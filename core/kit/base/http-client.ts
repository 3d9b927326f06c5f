import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import type { LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import type { KeptConnections } from './kept-connections.ts'
import { connectPinned, type Dial } from './pinned-socket.ts'

/** HTTP address of a bridge, with the pin of its TLS key. */
export interface BridgeAddress {
  readonly url: string
  /** Several: any of these keys. */
  readonly pin?: string | readonly string[] | undefined
}

export interface HttpRequest {
  readonly method?: string
  readonly headers?: Readonly<OutgoingHttpHeaders>
  /** JSON, other bytes, or a stream, whose length and type are in the headers. */
  readonly body?: string | Uint8Array | Readable
  readonly signal: AbortSignal
  /** Absent: no key is pinned. */
  readonly dial?: Dial | undefined
  /** Absent: the request has a connection of its own. */
  readonly connections?: KeptConnections | undefined
  /** Name resolution; absent: the system's. */
  readonly lookup?: LookupFunction | undefined
  /** Time without a byte after which the server is given up. Absent: no limit. */
  readonly maxSilentMs?: number
  /** The connection is open, TLS included; nothing of the request is written yet. */
  readonly onConnected?: () => void
}

/** Of a connection that its server closes. */
const closedCodes: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE'])

/**
 * Sends one HTTP request. Its connection ends with the response's body or the signal, unless it is kept and the body was read to its
 * end. Redirects are not followed, and proxies of the environment not used.
 * @returns the response, whose body is a stream
 * @throws the signal's reason; BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE as a pinned connection does; what the socket throws
 */
export async function sendRequest(url: URL, options: HttpRequest): Promise<IncomingMessage> {
  const { method = 'GET', headers, body = '', signal, dial, connections, lookup, maxSilentMs, onConnected = () => {} } = options
  const isTls = url.protocol === 'https:'
  const dialed = isTls && !connections ? await dial?.(url.href, signal) : undefined
  const request = (isTls ? requestTls : requestPlain)(url, {
    method,
    headers: { ...(method === 'POST' && !(body instanceof Readable) ? lengthAndTypeOf(body) : {}), ...headers },
    signal,
    ...(lookup ? { lookup } : {}),
    ...(dialed ? { createConnection: () => dialed } : { agent: connections?.agentFor(isTls, dial) ?? false }),
  })
  let response: IncomingMessage | undefined
  if (maxSilentMs !== undefined)
    request.setTimeout(maxSilentMs, () => (response ?? request).destroy(new Error(`no data for ${maxSilentMs / 1_000} s`)))
  if (dialed) onConnected()
  else
    request.once('socket', (socket) => {
      // Node stops listening when a response is complete, also where the rest of its body is dropped later.
      if (connections && !request.reusedSocket) socket.on('error', () => {})
      // That of a pinned connection is open when it comes.
      if (request.reusedSocket || (connections && isTls && dial)) onConnected()
      else socket.once(isTls ? 'secureConnect' : 'connect', onConnected)
    })
  // Errors after the response are those of its body.
  request.on('error', () => {})
  if (body instanceof Readable) body.pipe(request)
  else request.end(body)
  try {
    ;[response] = (await once(request, 'response')) as [IncomingMessage]
    return response
  } catch (cause) {
    signal.throwIfAborted()
    // An idle connection that its server closes just then: the request is sent once more, on a connection of its own.
    if (request.reusedSocket && !(body instanceof Readable) && closedCodes.has((cause as { code?: unknown }).code))
      return sendRequest(url, { ...options, connections: undefined })
    throw cause
  }
}

const lengthAndTypeOf = (body: string | Uint8Array) => ({
  'content-type': typeof body === 'string' ? 'application/json' : 'application/octet-stream',
  'content-length': Buffer.byteLength(body),
})

/** Verifies that a server has one of these keys. */
export function dialPinned(pin: BridgeAddress['pin']): Dial {
  const pins = [pin ?? []].flat()
  return async (url, signal) => (pins.length > 0 ? connectPinned(url, pins, signal) : undefined)
}

/** The body of a response. @throws `tooLarge` if it is larger; what the body throws */
export async function readBody(
  response: IncomingMessage,
  maxBytes: number,
  tooLarge = () => new Error(`response of more than ${maxBytes} bytes`),
): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
