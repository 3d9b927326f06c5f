import { BrimError, type ErrorCode } from '../base/errors.ts'

/** A failure in OpenAI's shape, with our code. */
export interface ApiError {
  readonly error: {
    readonly message: string
    readonly type: 'invalid_request_error' | 'server_error'
    /** The field that is wrong. */
    readonly param: string | null
    readonly code: string
    readonly hint?: string
  }
}

/** What the caller can change is 4xx, what time or the operator can change is 503, the rest 500. */
const statuses: Partial<Record<ErrorCode, number>> = {
  REQUEST_INVALID: 400,
  CONTEXT_OVERFLOW: 400,
  CHAT_TEMPLATE_INVALID: 400,
  MODEL_UNKNOWN: 404,
  BRIDGE_UNREACHABLE: 503,
  BUNDLE_MISMATCH: 503,
  NOT_AUTHORIZED: 503,
  DEVICE_CLONED: 503,
  IDENTITY_INVALID: 503,
  OUT_OF_MEMORY: 503,
  SESSION_REFUSED: 503,
  SESSION_UNKNOWN: 503,
  LINK_LOST: 503,
  CANCELED: 503,
}

/** A field of the request body is wrong. */
export class FieldError extends BrimError {
  readonly param: string

  constructor(code: ErrorCode, param: string, message: string, hint?: string) {
    super(code, message, hint === undefined ? {} : { hint })
    this.param = param
  }
}

export function statusOf(error: unknown): number {
  return error instanceof BrimError ? (statuses[error.code] ?? 500) : 500
}

/** Errors of ours have words meant for others; of any other the log knows more. */
export function toApiError(error: unknown): ApiError {
  if (!(error instanceof BrimError))
    return { error: { message: 'the agent failed; its log says why', type: 'server_error', param: null, code: 'INTERNAL' } }
  const { code, message, hint } = error
  return {
    error: {
      message,
      type: statusOf(error) < 500 ? 'invalid_request_error' : 'server_error',
      param: error instanceof FieldError ? error.param : null,
      code,
      ...(hint === undefined ? {} : { hint }),
    },
  }
}
