import { fullJitterMs } from '../link/back-off.ts'

export interface RetryLimits {
  /** Attempts that may follow the first one. */
  readonly retries: number
  /** Longest time that a server may ask clients to wait before they retry; beyond it the request fails at once. */
  readonly maxRetryAfterMs: number
}

/** Bounds of the wait that is added to what the server asks for, so that waiting requests do not return in step. */
const backOff = { firstMs: 250, maxMs: 4_000 }

/**
 * Wait before an attempt is repeated.
 * @param failures attempts that have failed, >= 1
 * @param retryAfterMs what the server asks for; undefined: the failure is permanent
 * @param uniform a random number in [0, 1)
 * @returns ms; undefined: no further attempt
 */
export function retryWaitMs(
  failures: number,
  retryAfterMs: number | undefined,
  { retries, maxRetryAfterMs }: RetryLimits,
  uniform: number,
): number | undefined {
  if (failures > retries || retryAfterMs === undefined || retryAfterMs > maxRetryAfterMs) return undefined
  return retryAfterMs + fullJitterMs(failures, backOff, uniform)
}
