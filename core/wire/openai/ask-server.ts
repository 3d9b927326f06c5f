import type { IncomingMessage } from 'node:http'
import { BrimError } from '../../kit/base/errors.ts'
import { type BridgeAddress, dialPinned, type HttpRequest, readBody, sendRequest } from '../../kit/base/http-client.ts'
import { speaksTls } from '../../kit/base/speaks-tls.ts'
import { isUntrusted } from '../../kit/base/untrusted-certificate.ts'
import { ErrorBody, fromErrorDetail } from './api-error.ts'

/** An agent or a bridge, and the credentials for it. */
export interface BrimServer extends BridgeAddress {
  readonly server: 'agent' | 'bridge'
  /** Absent: it requires none. */
  readonly key?: string | undefined
  /** What to try where it cannot be asked. Absent: for commands, by their options. */
  readonly hint?: string
}

/** The limit keeps another server from filling the memory. */
const maxErrorBytes = 64 * 1_024

interface Question extends Omit<HttpRequest, 'dial'> {
  /** Of the response. */
  readonly type?: 'application/json' | 'text/event-stream'
}

/**
 * Sends one request to an agent or a bridge.
 * @param route below the server's URL, which may have a path of its own: that of a proxy
 * @returns the response, which has a status of success and the expected type
 * @throws BrimError AGENT_UNREACHABLE, BRIDGE_UNREACHABLE, IDENTITY_INVALID (another key than the pinned one), the server's own
 * errors; the signal's reason
 */
export async function askServer(to: BrimServer, route: string, { type, ...request }: Question): Promise<IncomingMessage> {
  const { server, key, pin } = to
  const url = new URL(`${new URL(to.url).pathname.replace(/\/$/, '')}${route}`, to.url)
  const headers = { ...request.headers, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) }
  const response = await sendRequest(url, { ...request, headers, dial: dialPinned(pin) }).catch(async (cause: unknown) => {
    request.signal.throwIfAborted()
    if (cause instanceof BrimError) throw cause
    const wrongScheme = await wrongSchemeError(url, cause, request.signal)
    throw wrongScheme ?? unreachable(to, `no ${server} responds at ${to.url}`, trustHint(cause) ?? startHints[server], cause)
  })
  const { statusCode = 0 } = response
  const isType = type === undefined || response.headers['content-type']?.startsWith(type)
  if (statusCode >= 200 && statusCode < 300 && isType) return response
  const failure = ErrorBody.safeParse(await readJson(response))
  if (!failure.success) throw notOurs(to, response)
  throw fromErrorDetail(failure.data.error, statusCode === 401 || statusCode === 403 ? 'NOT_AUTHORIZED' : 'REQUEST_INVALID')
}

/** Undefined: it is not JSON, or not an error of ours. */
async function readJson(response: IncomingMessage): Promise<unknown> {
  try {
    return JSON.parse((await readBody(response, maxErrorBytes)).toString())
  } catch {
    return undefined
  }
}

/** The error of a response that is none of an agent or a bridge. */
export const notOurs = (to: BrimServer, { statusCode }: IncomingMessage, cause?: unknown): BrimError =>
  unreachable(to, `${to.url} responds with status ${statusCode}, but is no ${to.server}`, urlHints[to.server], cause)

const startHints = {
  agent: 'start one with "brim agent run", or give its URL with --api; --bridge asks a bridge',
  bridge: 'start one with "brim bridge run", or give its HTTP URL or the name of a login with --bridge',
}
const urlHints = {
  agent: 'check --api: is a proxy or another server on that port?',
  bridge: 'check --bridge: is a proxy or another server on that port?',
}

const unreachable = ({ server, hint: own }: BrimServer, message: string, hint: string, cause?: unknown) =>
  new BrimError(server === 'agent' ? 'AGENT_UNREACHABLE' : 'BRIDGE_UNREACHABLE', message, { hint: own ?? hint, cause })

/** Undefined: the URL's scheme is right, as far as can be seen. */
async function wrongSchemeError(url: URL, cause: unknown, signal: AbortSignal): Promise<BrimError | undefined> {
  const code = codeOf(cause)
  if (code === 'ECONNREFUSED' || code === 'ENOTFOUND') return undefined
  if (url.protocol === 'https:' && /EPROTO|WRONG_VERSION/.test(code))
    return new BrimError('BRIDGE_UNREACHABLE', `${url.host} does not speak TLS`, { cause, hint: `use http://${url.host}` })
  if (url.protocol === 'http:' && (await speaksTls(url, signal)))
    return new BrimError('BRIDGE_UNREACHABLE', `${url.host} speaks TLS`, { cause, hint: `use https://${url.host}` })
  return undefined
}

/** What to do where this system does not trust the certificate; undefined for other errors. */
const trustHint = (cause: unknown): string | undefined =>
  isUntrusted(cause) ? 'trust its certificate with "brim login --pin …": "brim bridge run" prints the pin' : undefined

const codeOf = (cause: unknown): string => (cause instanceof Error && 'code' in cause ? String(cause.code) : '')
