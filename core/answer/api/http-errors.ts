import '../../kit/base/plain-messages.ts'
import { BrimError, toErrorJson } from '../../kit/base/errors.ts'
import { isStorageFull, storageFull } from '../../kit/store/storage-full.ts'
import { errorType, toErrorBody } from '../../wire/openai/api-error.ts'
import type { ErrorResponse } from '../../wire/protocol/http/error-response.ts'

/** A request is refused for what HTTP says of it: its method, path, origin, type or size. */
export class RequestRefused extends BrimError {
  /** 4xx */
  readonly status: number
  /** Methods that the path takes, where the method is wrong. */
  readonly allowed: readonly string[]

  constructor(
    status: number,
    message: string,
    { hint, allowed = [] }: { hint?: string | undefined; allowed?: readonly string[] } = {},
  ) {
    super('REQUEST_INVALID', message, { hint })
    this.status = status
    this.allowed = allowed
  }
}

export const noSuchPath = (hint?: string) => new RequestRefused(404, 'no such path', { hint })

export interface ErrorReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ErrorResponse
}

/** An unexpected error that stands for a known one; others unchanged. @param server that cannot store */
export const namedError = (thrown: unknown, server: 'agent' | 'bridge'): unknown =>
  !(thrown instanceof BrimError) && isStorageFull(thrown) ? storageFull(`the ${server} stores nothing`, thrown) : thrown

/** The text of an unexpected error is logged only. @param form 'openai': with OpenAI's names for our codes */
export function errorReply(error: unknown, statusOf: (error: BrimError) => number, form: 'openai' | undefined): ErrorReply {
  if (!(error instanceof BrimError)) return { status: 500, headers: {}, body: toErrorBody(error) as ErrorResponse }
  const isRefused = error instanceof RequestRefused
  const status = isRefused ? error.status : statusOf(error)
  return {
    status,
    headers: {
      ...(error.retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(error.retryAfterMs / 1_000)) }),
      ...(isRefused && error.allowed.length > 0 ? { allow: error.allowed.join(', ') } : {}),
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    },
    body:
      form === 'openai'
        ? (toErrorBody(error, status) as ErrorResponse)
        : { error: { ...toErrorJson(error).error, type: errorType(status), param: null } },
  }
}

/** An error of Fastify (not JSON, too large, malformed URL) as a refusal; other errors unchanged. */
export function ownError(error: unknown, maxBodyBytes: number): unknown {
  if (!(error instanceof Error) || error instanceof BrimError || !('statusCode' in error)) return error
  const status = Number(error.statusCode)
  if (status === 413) return new RequestRefused(413, `the body is longer than ${maxBodyBytes} bytes`)
  return status < 500 ? new RequestRefused(status, error.message) : error
}
