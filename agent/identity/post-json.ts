import { once } from 'node:events'
import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestTls } from 'node:https'
import { text as textOf } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import type { z } from 'zod'
import { BrimError, type ErrorCode, errorCodes } from '../../core/base/errors.ts'
import { Refusal } from '../../core/protocol/identity.ts'
import { connectPinned } from './pinned-socket.ts'

const timeoutMs = 10_000

/** A bridge's HTTP address, and the key that it must show there where one was pinned. */
export interface BridgeAddress {
  readonly url: string
  readonly pin?: string | undefined
}

/**
 * One JSON request to a bridge, one answer.
 * @throws BrimError BRIDGE_UNREACHABLE, IDENTITY_INVALID, or what the bridge refused it with
 */
export async function postJson<T>(
  at: BridgeAddress,
  path: string,
  body: unknown,
  reply: z.ZodType<T>,
  signal?: AbortSignal,
): Promise<T> {
  const url = new URL(path, at.url)
  const late = AbortSignal.timeout(timeoutMs)
  const ended = signal ? AbortSignal.any([signal, late]) : late
  const pinned = at.pin !== undefined && url.protocol === 'https:' ? await connectPinned(at.url, at.pin, signal) : undefined
  let answered: { status: number | undefined; text: string }
  try {
    answered = await post(url, JSON.stringify(body), pinned, ended)
  } catch (cause) {
    if (signal?.aborted) throw signal.reason
    throw unreachable(url, cause)
  }
  const { status, text } = answered
  const json = parse(text)
  if (status === 200) {
    const answer = reply.safeParse(json)
    if (answer.success) return answer.data
    throw unreachable(url, answer.error)
  }
  const refusal = Refusal.safeParse(json)
  if (!refusal.success) throw unreachable(url, new Error(`HTTP status ${status}`))
  const { code, message, hint } = refusal.data.error
  throw new BrimError(isCode(code) ? code : 'NOT_AUTHORIZED', message, hint === undefined ? {} : { hint })
}

async function post(url: URL, body: string, pinned: TLSSocket | undefined, signal: AbortSignal) {
  const request = (url.protocol === 'https:' ? requestTls : requestPlain)(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), connection: 'close' },
    signal,
    ...(pinned ? { createConnection: () => pinned } : { agent: false }),
  })
  request.end(body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return { status: response.statusCode, text: await textOf(response) }
}

const isCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code)

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const unreachable = (url: URL, cause: unknown) =>
  new BrimError('BRIDGE_UNREACHABLE', `the bridge at ${url.origin} did not answer as a bridge does`, {
    cause,
    hint: 'is it running, and is that its HTTP address?',
  })
