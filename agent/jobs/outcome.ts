import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { AttemptFailure } from '../../core/policy/jobs/retry.ts'

/** How an attempt ended. */
export type Outcome =
  | { readonly type: 'succeeded'; readonly result: Record<string, unknown> }
  | { readonly type: 'canceled' }
  | { readonly type: 'failed'; readonly failure: AttemptFailure; readonly error: { code: string; message: string } }

export const interrupted: Outcome = {
  type: 'failed',
  failure: 'interrupted',
  error: { code: 'CANCELED', message: 'the agent stopped during the attempt' },
}

/** Errors that a retry cannot change, and those that time may change. All others count as `failed`. */
const failureOf: Partial<Record<ErrorCode, AttemptFailure>> = {
  REQUEST_INVALID: 'refused',
  CONTEXT_OVERFLOW: 'refused',
  CHAT_TEMPLATE_INVALID: 'refused',
  MODEL_UNKNOWN: 'refused',
  BUNDLE_INVALID: 'refused',
  BUNDLE_CORRUPT: 'refused',
  DISK_FULL: 'refused',
  CONFIG_INVALID: 'refused',
  SIGNATURE_INVALID: 'refused',
  DOWNGRADE_REFUSED: 'refused',
  HEALTH_CHECK_FAILED: 'refused',
  RELEASE_INVALID: 'refused',
  BUNDLE_UNAVAILABLE: 'unavailable',
  BRIDGE_UNREACHABLE: 'unavailable',
  LINK_LOST: 'unavailable',
  SESSION_REFUSED: 'unavailable',
  ATTESTATION_REFUSED: 'unavailable',
  SESSION_UNKNOWN: 'unavailable',
  PROVIDER_LOST: 'unavailable',
}

export function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof BrimError))
    return {
      type: 'failed',
      failure: 'failed',
      error: { code: 'INTERNAL', message: 'internal error; see the log of the device' },
    }
  const { code, message } = error
  return { type: 'failed', failure: failureOf[code] ?? 'failed', error: { code, message: message.slice(0, 2_000) } }
}
