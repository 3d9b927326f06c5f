import { once } from 'node:events'
import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import { BrimError } from './errors.ts'
import { connectPinned } from './pinned-socket.ts'
import { speaksTls } from './speaks-tls.ts'

/** HTTP address of a bridge, with the pin of its TLS key. */
export interface BridgeAddress {
  readonly url: string
  /** Several: any of these keys. */
  readonly pin?: string | readonly string[] | undefined
}

interface PinnedRequest {
  readonly method: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  /** JSON, or other bytes. */
  readonly body?: string | Uint8Array
  readonly signal: AbortSignal
}

/**
 * Sends one HTTP request on a new connection, after a pinned key has been verified. Without a pin, TLS uses the certificates
 * that this system trusts.
 * @throws BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE if a pinned connection fails or the URL has the wrong scheme;
 * otherwise what the socket throws
 */
export async function requestOnce(
  at: BridgeAddress,
  path: string,
  { method, headers = {}, body = '', signal }: PinnedRequest,
): Promise<IncomingMessage> {
  const url = new URL(path, at.url)
  const encrypted = url.protocol === 'https:'
  const pins = [at.pin ?? []].flat()
  const pinned = encrypted && pins.length > 0 ? await connectPinned(at.url, pins, signal) : undefined
  const length =
    method === 'POST'
      ? {
          'content-type': typeof body === 'string' ? 'application/json' : 'application/octet-stream',
          'content-length': Buffer.byteLength(body),
        }
      : {}
  const request = (encrypted ? requestTls : requestPlain)(url, {
    method,
    headers: { ...length, connection: 'close', ...headers },
    signal,
    ...(pinned ? { createConnection: () => pinned } : { agent: false }),
  })
  request.end(body)
  try {
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return response
  } catch (cause) {
    throw await wrongScheme(url, cause, signal)
  }
}

/** The error of a request whose URL has the scheme of the other protocol than its server speaks; otherwise `cause`. */
async function wrongScheme(url: URL, cause: unknown, signal: AbortSignal): Promise<unknown> {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (signal.aborted || code === 'ECONNREFUSED' || code === 'ENOTFOUND') return cause
  if (url.protocol === 'https:' && /EPROTO|WRONG_VERSION/.test(code))
    return new BrimError('BRIDGE_UNREACHABLE', `${url.host} does not speak TLS`, { cause, hint: `use http://${url.host}` })
  if (url.protocol === 'http:' && (await speaksTls(url, signal)))
    return new BrimError('BRIDGE_UNREACHABLE', `${url.host} speaks TLS`, { cause, hint: `use https://${url.host}` })
  return cause
}

/** What to do where this system does not trust the certificate; undefined for other errors. */
export const trustHint = (cause: unknown): string | undefined =>
  cause instanceof Error && 'code' in cause && /CERT|SELF_SIGNED|VERIFY/.test(String(cause.code))
    ? 'trust its certificate with "brim login --pin …": "brim bridge run" prints the pin'
    : undefined
