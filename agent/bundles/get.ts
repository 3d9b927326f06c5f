import { once } from 'node:events'
import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import { BrimError } from '../../core/base/errors.ts'
import type { Credentials } from '../identity/credentials.ts'

/** The device's own bridge: whoever answers at this origin alone gets its token. */
export interface OwnBridge {
  readonly origin: string
  /** Absent: the device has enrolled nowhere. */
  readonly credentials: Pick<Credentials, 'token' | 'dial'> | undefined
}

export interface GetOptions {
  readonly own: OwnBridge | undefined
  /** A server that sends nothing for so long is given up. */
  readonly stallMs: number
  readonly signal: AbortSignal
  /** First byte that is wanted. */
  readonly from?: number
}

const mostRedirects = 5

/**
 * The body of a GET, from its beginning or from the byte that was asked for; `from` says which. Redirects lead to http(s)
 * alone, and never from TLS to plain text.
 * @throws BrimError BUNDLE_UNAVAILABLE where the same may succeed later, BUNDLE_INVALID where not, IDENTITY_INVALID
 */
export async function get(url: URL, options: GetOptions): Promise<{ body: IncomingMessage; from: number }> {
  let at = url
  let { from = 0 } = options
  for (let redirects = 0; redirects <= mostRedirects; redirects++) {
    const body = await ask(at, from, options)
    const status = body.statusCode ?? 0
    if (status === 200) return { body, from: 0 }
    if (status === 206) {
      const [, first] = /^bytes (\d+)-/.exec(body.headers['content-range'] ?? '') ?? []
      if (Number(first) === from) return { body, from }
    }
    body.destroy()
    // Its file is shorter than what we have of it: another one.
    if (status === 416 && from > 0) {
      from = 0
      continue
    }
    const { location } = body.headers
    if (![301, 302, 303, 307, 308].includes(status) || location === undefined) throw refused(at, status)
    at = follow(at, location)
  }
  throw new BrimError('BUNDLE_INVALID', `${url.href} is redirected more than ${mostRedirects} times`, { hint })
}

const hint = 'is that the address of the folder that holds manifest.json?'

function follow(from: URL, location: string): URL {
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined
  if (to && (to.protocol === 'https:' || (to.protocol === 'http:' && from.protocol === 'http:'))) return to
  throw new BrimError('BUNDLE_INVALID', `${from.href} leads to ${location}, where a bundle is not fetched from`, { hint })
}

async function ask(url: URL, from: number, { own, stallMs, signal }: GetOptions): Promise<IncomingMessage> {
  const credentials = own?.origin === url.origin ? own.credentials : undefined
  const authorization = credentials ? { authorization: `Bearer ${await credentials.token(signal)}` } : {}
  const pinned = url.protocol === 'https:' ? await credentials?.dial(url.href, signal) : undefined
  const range = from > 0 ? { range: `bytes=${from}-` } : {}
  const request = (url.protocol === 'https:' ? requestTls : requestPlain)(url, {
    headers: { ...authorization, ...range },
    signal,
    ...(pinned ? { createConnection: () => pinned } : { agent: false }),
  })
  request.setTimeout(stallMs, () => request.destroy(new Error(`nothing came for ${stallMs / 1_000} s`)))
  request.end()
  try {
    const [body] = (await once(request, 'response')) as [IncomingMessage]
    return body
  } catch (cause) {
    signal.throwIfAborted()
    throw unavailable(url, cause)
  }
}

/** Why stands in the message: the bridge, where somebody looks for it, is told nothing else. */
export const unavailable = (url: URL, cause: unknown) =>
  new BrimError('BUNDLE_UNAVAILABLE', `${url.href} cannot be fetched now: ${cause instanceof Error ? cause.message : cause}`, {
    cause,
    hint: 'is its server running, and reachable from this device?',
  })

function refused(url: URL, status: number): BrimError {
  if (status >= 500 || status === 408 || status === 429 || status < 300)
    return unavailable(url, new Error(`its server answers ${status}`))
  return new BrimError('BUNDLE_INVALID', `${url.href} cannot be fetched: its server answers ${status}`, { hint })
}
