import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { BrimError, isErrorCode } from '../../core/base/errors.ts'
import { type BridgeAddress, requestOnce } from '../../core/base/pinned-request.ts'
import { ErrorResponse } from '../../core/protocol/http/error-response.ts'
import { readJson } from '../../core/protocol/read-message.ts'

const timeoutMs = 10_000
/** No response of a bridge is longer. The limit keeps another server from filling the memory. */
const maxResponseBytes = 64 * 1024

/**
 * Sends one JSON request to a bridge and parses its response.
 * @throws BrimError BRIDGE_UNREACHABLE, IDENTITY_INVALID, or the error with which the bridge rejects it
 */
export async function postJson<T>(
  at: BridgeAddress,
  { path, response: schema }: { readonly path: string; readonly response: z.ZodType<T> },
  body: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const url = new URL(path, at.url)
  const timeout = AbortSignal.timeout(timeoutMs)
  const ended = signal ? AbortSignal.any([signal, timeout]) : timeout
  let status: number | undefined
  let json: unknown
  try {
    const response = await requestOnce(at, path, { method: 'POST', body: JSON.stringify(body), signal: ended })
    status = response.statusCode
    json = parse(await textOf(response))
  } catch (cause) {
    if (signal?.aborted) throw signal.reason
    if (cause instanceof BrimError) throw cause
    throw unreachable(url, cause)
  }
  if (status === 200) {
    const read = readJson(schema, json)
    if (read.kind === 'message') return read.message
    throw unreachable(url, new Error(`unreadable response: ${read.reason}`))
  }
  const rejection = ErrorResponse.safeParse(json)
  if (!rejection.success) throw unreachable(url, new Error(`HTTP status ${status}`))
  const { code, message, hint } = rejection.data.error
  throw new BrimError(isErrorCode(code) ? code : 'NOT_AUTHORIZED', message, { hint })
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > maxResponseBytes) throw new Error(`response of more than ${maxResponseBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const unreachable = (url: URL, cause: unknown) =>
  new BrimError('BRIDGE_UNREACHABLE', `no bridge responds at ${url.origin}`, {
    cause,
    hint: 'is the bridge running, and is this its HTTP address?',
  })
