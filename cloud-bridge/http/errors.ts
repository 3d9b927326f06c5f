import type { z } from 'zod'
import '../../core/base/plain-messages.ts'
import { BrimError, type ErrorCode, toErrorJson } from '../../core/base/errors.ts'
import { type ErrorBody, errorType, statusOf, toErrorBody } from '../../core/openai/api-error.ts'
import type { ErrorResponse } from '../../core/protocol/http/error-response.ts'
import type { Operation } from '../../core/protocol/http/operation.ts'
import { isStorageFull, storageFull } from '../../core/store/storage-full.ts'

export interface ErrorReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ErrorResponse | ErrorBody
}

const statuses: Partial<Record<ErrorCode, number>> = {
  REQUEST_INVALID: 400,
  NOT_AUTHORIZED: 401,
  FORBIDDEN: 403,
  ENROLL_REFUSED: 403,
  DEVICE_CLONED: 403,
  IDENTITY_UNKNOWN: 404,
  JOB_UNKNOWN: 404,
  ROLLOUT_UNKNOWN: 404,
  DEVICE_UNKNOWN: 404,
  MODEL_UNKNOWN: 404,
  BUNDLE_MISMATCH: 409,
  QUOTA_EXCEEDED: 429,
  BUNDLE_INVALID: 400,
  BUNDLE_CORRUPT: 400,
  SIGNATURE_INVALID: 400,
  DISK_FULL: 507,
  STORAGE_FULL: 507,
}

/** The method, path or origin of a request is not allowed. */
export class RequestRefused extends BrimError {
  readonly status: 403 | 404 | 405
  /** Methods that the path takes. */
  readonly allowed: readonly string[]

  constructor(status: RequestRefused['status'], message: string, allowed: readonly string[] = []) {
    super('REQUEST_INVALID', message)
    this.status = status
    this.allowed = allowed
  }
}

export const noSuchPath = new RequestRefused(404, 'no such path')

/** The text of an unexpected error is logged only. @param form that of the operation */
export function errorReply(thrown: unknown, form: Operation['errors']): ErrorReply {
  const isOpenai = form === 'openai'
  const isUnnamed = !(thrown instanceof BrimError) && isStorageFull(thrown)
  const error = isUnnamed ? storageFull('the bridge stores nothing', thrown) : thrown
  if (!(error instanceof BrimError)) {
    return { status: 500, headers: {}, body: toErrorBody(error) }
  }
  const status = error instanceof RequestRefused ? error.status : (statuses[error.code] ?? (isOpenai ? statusOf(error) : 500))
  return {
    status,
    headers: {
      ...(error.retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(error.retryAfterMs / 1_000)) }),
      ...(error instanceof RequestRefused && error.allowed.length > 0 ? { allow: error.allowed.join(', ') } : {}),
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    },
    body: isOpenai
      ? toErrorBody(error, status)
      : { error: { ...toErrorJson(error).error, type: errorType(status), param: null } },
  }
}

/** An error of Fastify (not JSON, too large, malformed URL) as a BrimError; other errors unchanged. */
export function ownError(error: unknown, maxBodyBytes: number): unknown {
  if (!(error instanceof Error) || error instanceof BrimError || !('statusCode' in error)) return error
  if (error.statusCode === 413) return new BrimError('REQUEST_INVALID', `the body is longer than ${maxBodyBytes} bytes`)
  return Number(error.statusCode) < 500 ? new BrimError('REQUEST_INVALID', error.message) : error
}

/** A body of 16 KB may have thousands. */
const maxProblems = 8

/** Names the first wrong fields of a query or a body. */
export function invalidRequest({ issues }: z.core.$ZodError, whole: 'the body' | 'the query'): BrimError {
  const wrong = issues.slice(0, maxProblems).map((issue) => {
    const [key] = issue.code === 'invalid_key' ? issue.issues : []
    const where = issue.path.length === 0 ? whole : `"${issue.path.join('.')}"`
    return `${where}: ${key?.message ?? issue.message}`
  })
  if (issues.length > maxProblems) wrong.push(`and ${issues.length - maxProblems} more`)
  return new BrimError('REQUEST_INVALID', wrong.join('; '))
}

/** @throws BrimError REQUEST_INVALID */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body)
  if (!parsed.success) throw invalidRequest(parsed.error, 'the body')
  return parsed.data
}
