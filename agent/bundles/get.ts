import type { IncomingMessage } from 'node:http'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import { sendRequest } from '../../core/kit/base/http-client.ts'
import { startGet } from '../../core/kit/base/ranged-get.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import type { Credentials } from '../identity/credentials.ts'
import { allowSource } from './bundle-source.ts'
import type { Patience } from './patience.ts'

/** The device's own bridge. Only this origin gets the device's token. */
export interface OwnBridge {
  readonly origin: string
  /** Absent: the device is not enrolled. */
  readonly credentials: Pick<Credentials, 'token' | 'dial'> | undefined
}

export interface GetOptions {
  /** Undefined: the device does not know the address of its HTTP yet. */
  readonly own: OwnBridge | undefined
  /** Origins that the configuration allows besides; absent: every one with a public address. */
  readonly sources?: readonly string[] | undefined
  /** Time after which a silent server is given up. */
  readonly stallMs: number
  readonly patience: Patience
  readonly signal: AbortSignal
  /** Offset of the first byte. */
  readonly from?: number
}

/**
 * How a job downloads.
 * @param link URL of the broker that the job came from, whose bridge is the own one
 */
export type GetOptionsOf = (link: string, signal: AbortSignal) => GetOptions

/** Errors that time may change. */
const transient: ReadonlySet<ErrorCode> = new Set(['BUNDLE_UNAVAILABLE', 'BRIDGE_UNREACHABLE', 'LINK_LOST'])

/** Repeats `task` while its server is unavailable and patience lasts. @throws what `task` throws */
export async function patiently<T>(task: () => Promise<T>, { patience, signal }: GetOptions): Promise<T> {
  for (;;) {
    try {
      return await task()
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof BrimError) || !transient.has(error.code)) throw error
      await patience.wait(error, signal)
    }
  }
}

/**
 * Starts a GET. Follows redirects within the origin, and to sources that the configuration allows.
 * @returns the body, and `from`, its offset: the requested one, or 0 if the server ignores ranges
 * @throws BrimError BUNDLE_UNAVAILABLE if a retry may succeed, BUNDLE_INVALID if not, IDENTITY_INVALID
 */
export async function startDownload(url: URL, options: GetOptions): Promise<{ body: IncomingMessage; from: number }> {
  return startGet(url, options.from ?? 0, {
    request: (at, from) => request(at, from, options),
    follow: (at, location) => follow(at, location, options.sources),
    refused: (at, { statusCode = 0 }) => refused(at, statusCode),
    tooManyRedirects: (max) => new BrimError('BUNDLE_INVALID', `${shownUrl(url)} is redirected more than ${max} times`, { hint }),
  })
}

const hint = 'check that the URL is the folder that contains manifest.json'

function follow(from: URL, location: string, sources: readonly string[] = []): URL {
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined
  const isKnown = to && (to.origin === from.origin || sources.includes(to.origin))
  if (isKnown && (to.protocol === 'https:' || from.protocol === 'http:')) return to
  throw new BrimError(
    'BUNDLE_INVALID',
    `${shownUrl(from)} redirects to ${to ? shownUrl(to) : 'no URL'}, which is not allowed: only within ${from.origin}`,
    { hint },
  )
}

async function request(url: URL, from: number, { own, sources, stallMs, signal }: GetOptions): Promise<IncomingMessage> {
  const isOwn = own?.origin === url.origin
  const lookup = isOwn ? undefined : allowSource(url, sources)
  const credentials = isOwn ? own.credentials : undefined
  const authorization = credentials ? { authorization: `Bearer ${await credentials.token(url.href, signal)}` } : {}
  const range = from > 0 ? { range: `bytes=${from}-` } : {}
  try {
    const headers = { ...authorization, ...range }
    return await sendRequest(url, { headers, signal, lookup, dial: credentials?.dial, maxSilentMs: stallMs })
  } catch (cause) {
    signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : unavailable(url, cause)
  }
}

/** The message contains the cause, because the bridge shows operators the message only. */
export const unavailable = (url: URL, cause: unknown) =>
  new BrimError(
    'BUNDLE_UNAVAILABLE',
    `${shownUrl(url)} cannot be downloaded now: ${cause instanceof Error ? cause.message : cause}`,
    {
      cause,
      hint: 'check that the server runs and is reachable from this device',
    },
  )

function refused(url: URL, status: number): BrimError {
  if (status >= 500 || status === 408 || status === 429 || status < 300)
    return unavailable(url, new Error(`the server responds with status ${status}`))
  return new BrimError('BUNDLE_INVALID', `${shownUrl(url)} cannot be downloaded: the server responds with status ${status}`, {
    hint,
  })
}
