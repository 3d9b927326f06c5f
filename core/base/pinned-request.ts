import { once } from 'node:events'
import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import { connectPinned } from './pinned-socket.ts'

/** A bridge's HTTP address, and the key that it must show there where one was pinned. */
export interface BridgeAddress {
  readonly url: string
  readonly pin?: string | undefined
}

export interface PinnedRequest {
  readonly method: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/**
 * One HTTP request on a connection of its own; nothing is sent before a pinned key has been shown. Where none is pinned, TLS
 * is as this system trusts it.
 * @throws BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE where a pinned connection fails; what the socket throws otherwise
 */
export async function requestOnce(
  at: BridgeAddress,
  path: string,
  { method, headers = {}, body = '', signal }: PinnedRequest,
): Promise<IncomingMessage> {
  const url = new URL(path, at.url)
  const encrypted = url.protocol === 'https:'
  const pinned = encrypted && at.pin !== undefined ? await connectPinned(at.url, at.pin, signal) : undefined
  const length = method === 'POST' ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {}
  const request = (encrypted ? requestTls : requestPlain)(url, {
    method,
    headers: { ...length, connection: 'close', ...headers },
    signal,
    ...(pinned ? { createConnection: () => pinned } : { agent: false }),
  })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return response
}
