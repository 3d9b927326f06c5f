import * as z from 'zod'
import { BrimError, type ErrorCode, isErrorCode } from '../../kit/base/errors.ts'

/** OpenAI's form of an error, with our codes and hints; readers accept other servers' errors too. */
export const ErrorDetail = z.object({
  message: z.string(),
  type: z.string().nullish(),
  /** The field that is wrong. */
  param: z.string().nullish(),
  code: z.string().nullish(),
  hint: z.string().nullish(),
})
export type ErrorDetail = z.infer<typeof ErrorDetail>

/** The body of a failed response, and the event that ends a failed stream. */
export const ErrorBody = z.object({ error: ErrorDetail })
export type ErrorBody = z.infer<typeof ErrorBody>

/** 4xx: the request can be corrected; 503: time or the operator can help; 500: everything else. */
const statuses: Partial<Record<ErrorCode, number>> = {
  API_KEY_INVALID: 401,
  REQUEST_INVALID: 400,
  CONTEXT_OVERFLOW: 400,
  CHAT_TEMPLATE_INVALID: 400,
  GRAMMAR_INVALID: 400,
  GRAMMAR_TOO_COMPLEX: 422,
  ANSWER_UNKNOWN: 404,
  MODEL_UNKNOWN: 404,
  QUEUE_FULL: 429,
  UPSTREAM_FAILED: 502,
  QUOTA_EXCEEDED: 429,
  BUDGET_EXHAUSTED: 429,
  ATTESTATION_REFUSED: 503,
  MODEL_MISSING: 503,
  BRIDGE_UNREACHABLE: 503,
  BUNDLE_CORRUPT: 503,
  BUNDLE_INVALID: 503,
  BUNDLE_MISMATCH: 503,
  NOT_AUTHORIZED: 503,
  DEVICE_CLONED: 503,
  DEVICE_ID_TAKEN: 503,
  DISCLOSURE_UNRECORDED: 503,
  IDENTITY_INVALID: 503,
  OUT_OF_MEMORY: 503,
  PROVIDER_LOST: 503,
  SESSION_REFUSED: 503,
  SESSION_UNKNOWN: 503,
  LINK_LOST: 503,
  CANCELED: 503,
}

/** Names of OpenAI's that programs look for. */
const openaiCodes: Partial<Record<ErrorCode, string>> = {
  CONTEXT_OVERFLOW: 'context_length_exceeded',
  MODEL_UNKNOWN: 'model_not_found',
}

/** A field of the request body is wrong. */
export class FieldError extends BrimError {
  readonly param: string

  constructor(code: ErrorCode, param: string, message: string, hint?: string) {
    super(code, message, { hint })
    this.param = param
  }
}

export function statusOf(error: unknown): number {
  return error instanceof BrimError ? (statuses[error.code] ?? 500) : 500
}

/** @param status of the response. Messages of our own errors are written for clients; other messages are only logged. */
export function toErrorBody(error: unknown, status = statusOf(error)): ErrorBody {
  if (!(error instanceof BrimError))
    return {
      error: { message: 'the server failed; its log has the reason', type: 'server_error', param: null, code: 'INTERNAL' },
    }
  const { code, message, hint } = error
  return {
    error: {
      message,
      type: errorType(status),
      param: error instanceof FieldError ? error.param : null,
      code: openaiCodes[code] ?? code,
      ...(hint === undefined ? {} : { hint }),
    },
  }
}

export const errorType = (status: number): string =>
  status === 429 ? 'rate_limit_error' : status < 500 ? 'invalid_request_error' : 'server_error'

/** The error that a server reported. @param unknown in the place of a code that neither we nor OpenAI have */
export function fromErrorDetail({ message, code, hint }: ErrorDetail, unknown: ErrorCode = 'REQUEST_INVALID'): BrimError {
  const own = ownCodeOf(code ?? '')
  return new BrimError(isErrorCode(own) ? own : unknown, message, { hint: hint ?? undefined })
}

/** Our code for one of OpenAI's; others unchanged: bridges of earlier releases send ours. */
export const ownCodeOf = (code: string): string =>
  Object.keys(openaiCodes).find((own) => openaiCodes[own as ErrorCode] === code) ?? code
