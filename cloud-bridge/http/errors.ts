import type { z } from 'zod'
import '../../core/kit/base/plain-messages.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import { statusOf } from '../../core/wire/openai/api-error.ts'
import type { Operation } from '../../core/wire/protocol/http/operation.ts'

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
  DATABASE_UNAVAILABLE: 503,
  NO_PRIMARY: 503,
}

export const statusFor = (error: BrimError, form: Operation['errors']): number =>
  statuses[error.code] ?? (form === 'openai' ? statusOf(error) : 500)

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
