import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { BrimError, type ErrorCode, errorCodes } from '../../core/base/errors.ts'
import { type BridgeAddress, requestOnce } from '../../core/base/pinned-request.ts'
import { ErrorResponse } from '../../core/protocol/http/error-response.ts'
import { readJson } from '../../core/protocol/read-message.ts'

const timeoutMs = 10_000
/** No answer of a bridge is longer: whoever answers in its place fills nobody's memory. */
const maxAnswerBytes = 64 * 1024

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
    const answer = readJson(reply, json)
    if (answer.kind === 'message') return answer.message
    throw unreachable(url, new Error(`its answer cannot be read: ${answer.reason}`))
  }
  const refusal = ErrorResponse.safeParse(json)
  if (!refusal.success) throw unreachable(url, new Error(`HTTP status ${status}`))
  const { code, message, hint } = refusal.data.error
  throw new BrimError(isCode(code) ? code : 'NOT_AUTHORIZED', message, hint === undefined ? {} : { hint })
}

const isCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code)

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > maxAnswerBytes) throw new Error(`its answer has more than ${maxAnswerBytes} bytes`)
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
  new BrimError('BRIDGE_UNREACHABLE', `the bridge at ${url.origin} did not answer as a bridge does`, {
    cause,
    hint: 'is it running, and is that its HTTP address?',
  })
