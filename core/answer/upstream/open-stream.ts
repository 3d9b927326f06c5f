import type { IncomingMessage } from 'node:http'
import { BrimError } from '../../kit/base/errors.ts'
import { readBody, sendRequest } from '../../kit/base/http-client.ts'
import type { KeptConnections } from '../../kit/base/kept-connections.ts'
import type { Dial } from '../../kit/base/pinned-socket.ts'
import type { Billing } from '../endpoint/endpoint.ts'
import { brief, type UpstreamFailures } from './failure.ts'
import type { Leaving } from './leaving.ts'
import type { Watchdog } from './watchdog.ts'

export interface OpenLimits {
  /** For a connection, TLS included. */
  readonly connectMs: number
  /** From the connection to the first token. */
  readonly firstTokenMs: number
}

export interface UpstreamAddress {
  /** Base URL of OpenAI's API. */
  readonly url: string
  /** Bearer token; undefined: none. */
  readonly key: string | undefined
  /** Absent: no key is pinned. */
  readonly dial?: Dial | undefined
  /** That earlier requests have left. */
  readonly connections: KeptConnections
}

/** What is asked for below the base URL: a POST, or a GET without a body. */
export interface StreamRequest {
  readonly path: string
  readonly body?: object
  /** Id of the event after which a GET goes on. */
  readonly after?: string
  readonly leaving: Leaving
  readonly traceparent?: string | undefined
}

/** What is read of the body of a failed response, in bytes. */
const maxErrorBytes = 64 * 1_024
/** For failures without a wait of the server's own. */
const defaultRetryAfterMs = 1_000
/** The server, or a proxy before it, has a problem that may pass. */
const transientStatuses: ReadonlySet<number> = new Set([408, 500, 502, 503, 504])
/** The request is wrong, not the configuration. */
const rejectedStatuses: ReadonlySet<number> = new Set([400, 413, 422])

/**
 * Sends a request, on a connection that is kept if its answer is read to the end. Redirects are not followed: the key is
 * for this server.
 * @returns the body, a stream of events; the watchdog has the limit for the first token
 * @throws BrimError UPSTREAM_FAILED, QUEUE_FULL (429), REQUEST_INVALID, DISCLOSURE_UNRECORDED; those with `retryAfterMs` may be retried
 */
export async function openStream(
  { url, key, dial, connections }: UpstreamAddress,
  { path, body, after, leaving, traceparent }: StreamRequest,
  { connectMs, firstTokenMs }: OpenLimits,
  watchdog: Watchdog,
  failures: UpstreamFailures,
  signal: AbortSignal,
  billing?: Billing,
): Promise<IncomingMessage> {
  const to = new URL(url)
  to.pathname = `${to.pathname.replace(/\/$/, '')}/${path}`
  const unreachable = (cause: unknown) => failures.unreachable(defaultRetryAfterMs, cause)
  const sent = body && JSON.stringify(body)
  const takeBack = leaving.request(to, Buffer.byteLength(sent ?? ''))
  let isConnected = false
  watchdog.allow(connectMs, () => unreachable(new Error(`no connection within ${connectMs / 1_000} s`)))
  const response = await sendRequest(to, {
    method: body ? 'POST' : 'GET',
    headers: {
      accept: 'text/event-stream',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(after !== undefined && { 'last-event-id': after }),
      ...(traceparent !== undefined && { traceparent }),
    },
    ...(sent !== undefined && { body: sent }),
    signal,
    dial,
    connections,
    onConnected() {
      isConnected = true
      billing?.sent()
      watchdog.allow(firstTokenMs, () => failures.failed(`sent no token within ${firstTokenMs / 1_000} s`))
    },
  }).catch((cause: unknown) => {
    if (!isConnected) takeBack()
    throw cause instanceof BrimError ? cause : unreachable(cause)
  })
  try {
    if (response.statusCode !== 200) billing?.refused()
    await requireStream(response, failures)
    return response
  } catch (error) {
    response.destroy()
    throw error
  }
}

/** @throws BrimError as `openStream` */
async function requireStream(response: IncomingMessage, failures: UpstreamFailures): Promise<void> {
  const { statusCode: status = 0, headers } = response
  if (status >= 300 && status < 400)
    throw failures.failed(`redirects to ${brief(headers.location ?? '?')} (status ${status}); redirects are not followed`)
  if (status !== 200) throw await statusError(response, status, failures)
  const type = headers['content-type'] ?? 'no content type'
  if (!/^text\/event-stream\b/i.test(type)) throw failures.failed(`responds with ${brief(type)} instead of a stream of events`)
}

async function statusError(response: IncomingMessage, status: number, failures: UpstreamFailures): Promise<Error> {
  const { reason, code } = await reasonIn(response)
  const retryAfterMs = retryAfterMsOf(response.headers['retry-after'])
  const own = failures.coded(code, reason, retryAfterMs)
  if (own) return own
  if (status === 429) return failures.busy(retryAfterMs)
  if (rejectedStatuses.has(status)) return failures.rejected(reason || `status ${status}`)
  const what = `responds with status ${status}${reason && `: ${reason}`}`
  return failures.failed(what, { retryAfterMs: transientStatuses.has(status) ? retryAfterMs : undefined })
}

/** The header as a wait: seconds, or a date. */
function retryAfterMsOf(header: string | undefined): number {
  if (header === undefined) return defaultRetryAfterMs
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? defaultRetryAfterMs : Math.max(0, ms)
}

/** Message and code, or type, in the body of a failed response, in the forms that servers give them; empty where there are none. */
async function reasonIn(response: IncomingMessage): Promise<{ reason: string; code: string }> {
  try {
    const text = (await readBody(response, maxErrorBytes)).toString()
    const body = JSON.parse(text) as { error?: unknown; detail?: unknown } | null
    const error = body?.error ?? body
    const message = (error as { message?: unknown } | null)?.message ?? body?.detail ?? error
    const { code, type } = (error ?? {}) as { code?: unknown; type?: unknown }
    return {
      reason: typeof message === 'string' ? brief(message) : '',
      code: [code, type].find((each) => typeof each === 'string') ?? '',
    }
  } catch {
    return { reason: '', code: '' }
  }
}
