import type { IncomingMessage, ServerResponse } from 'node:http'
import type { z } from 'zod'
import { BrimError, type ErrorCode, toErrorJson } from '../../core/base/errors.ts'

/** Most bodies are small. */
const mostBytes = 16 * 1024

/** @throws BrimError REQUEST_INVALID */
export async function bodyOf(request: IncomingMessage, maxBodyBytes = mostBytes): Promise<unknown> {
  // What makes a browser ask before it sends anything across sites.
  if (!request.headers['content-type']?.startsWith('application/json'))
    throw new BrimError('REQUEST_INVALID', 'send JSON (content-type: application/json)')
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > maxBodyBytes) throw new BrimError('REQUEST_INVALID', `the body is longer than ${maxBodyBytes} bytes`)
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    throw new BrimError('REQUEST_INVALID', 'the body is no JSON')
  }
}

/** @throws BrimError REQUEST_INVALID */
export function understood<T>(schema: z.ZodType<T>, body: unknown): T {
  const read = schema.safeParse(body)
  if (read.success) return read.data
  const wrong = read.error.issues.map((issue) => {
    const [key] = issue.code === 'invalid_key' ? issue.issues : []
    const where = issue.path.length === 0 ? 'the body' : `"${issue.path.join('.')}"`
    return `${where}: ${key?.message ?? issue.message}`
  })
  throw new BrimError('REQUEST_INVALID', wrong.join('; '))
}

/** Answered with 404. */
export const noSuchPath = new BrimError('REQUEST_INVALID', 'no such path, or not with this method')

export function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers })
  response.end(`${JSON.stringify(body)}\n`)
}

/** What could not be done, with a status that says whose fault it is, and when to try again. */
export function answerError(response: ServerResponse, error: unknown): void {
  const status = statusOf(error)
  const retryAfterMs = error instanceof BrimError ? error.retryAfterMs : undefined
  answer(response, status, toErrorJson(error), {
    ...(retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1_000)) }),
    ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
  })
}

const statuses: Partial<Record<ErrorCode, number>> = {
  REQUEST_INVALID: 400,
  NOT_AUTHORIZED: 401,
  FORBIDDEN: 403,
  ENROLL_REFUSED: 403,
  DEVICE_CLONED: 403,
  IDENTITY_UNKNOWN: 404,
  JOB_UNKNOWN: 404,
  DEVICE_UNKNOWN: 404,
  MODEL_UNKNOWN: 404,
  QUOTA_EXCEEDED: 429,
}

function statusOf(error: unknown): number {
  if (error === noSuchPath) return 404
  return (error instanceof BrimError ? statuses[error.code] : undefined) ?? 500
}
