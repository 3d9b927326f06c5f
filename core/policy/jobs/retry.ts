import type { Random } from '../../kit/base/random.ts'

export const attemptFailures = ['undelivered', 'lost', 'timeout', 'interrupted', 'unavailable', 'failed', 'refused'] as const
export type AttemptFailure = (typeof attemptFailures)[number]

interface RetryRule {
  /** Failures of this kind that another attempt may follow. */
  readonly retries: number
  readonly baseMs: number
  readonly maxMs: number
}

/** Transient failures are retried often, failures that are likely to repeat seldom, permanent ones never. */
export const retryRules: Readonly<Record<AttemptFailure, RetryRule>> = {
  /** The device did not accept the job. */
  undelivered: { retries: 20, baseMs: 250, maxMs: 30_000 },
  /** The device was absent for longer than the job allows. */
  lost: { retries: 20, baseMs: 250, maxMs: 30_000 },
  /** The agent stopped during the attempt. Limited, because the job itself may crash the agent. */
  interrupted: { retries: 10, baseMs: 250, maxMs: 30_000 },
  /** The device had no bridge, or the bridge no capacity. */
  unavailable: { retries: 20, baseMs: 1_000, maxMs: 60_000 },
  /** The attempt made no progress, or did not end, in time. */
  timeout: { retries: 2, baseMs: 1_000, maxMs: 60_000 },
  /** The runtime failed or memory ran out. */
  failed: { retries: 2, baseMs: 1_000, maxMs: 60_000 },
  /** The device cannot do the job; a retry would fail the same way. */
  refused: { retries: 0, baseMs: 0, maxMs: 0 },
}

/**
 * Delay before the attempt that follows the `count`-th failure of its kind (>= 1): "full jitter", uniform in
 * [0, min(maxMs, baseMs · 2^(count − 1))). M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015.
 * @returns ms; undefined: no further attempt
 */
export function retryDelayMs(failure: AttemptFailure, count: number, random: Random): number | undefined {
  const { retries, baseMs, maxMs } = retryRules[failure]
  if (count > retries) return undefined
  return random.next() * Math.min(maxMs, baseMs * 2 ** (count - 1))
}
