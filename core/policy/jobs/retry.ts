import type { Random } from '../../base/random.ts'

/** Why an attempt came to nothing. */
export const attemptFailures = ['undelivered', 'lost', 'timeout', 'interrupted', 'unavailable', 'failed', 'refused'] as const
export type AttemptFailure = (typeof attemptFailures)[number]

interface RetryRule {
  /** Attempts that may fail this way and be followed by another. */
  readonly retries: number
  readonly baseMs: number
  readonly maxMs: number
}

/** What passes by itself is tried often, what will fail the same way again seldom, what cannot succeed never. */
export const retryRules: Readonly<Record<AttemptFailure, RetryRule>> = {
  /** Sent, and never said to have come. */
  undelivered: { retries: 20, baseMs: 250, maxMs: 30_000 },
  /** The device was away for longer than the job waits. */
  lost: { retries: 20, baseMs: 250, maxMs: 30_000 },
  /** The agent ended in the middle; one that a job kills must not be killed for ever. */
  interrupted: { retries: 10, baseMs: 250, maxMs: 30_000 },
  /** No bridge or no room for it just now. */
  unavailable: { retries: 20, baseMs: 1_000, maxMs: 60_000 },
  /** Not begun, or not gone on, in time. */
  timeout: { retries: 2, baseMs: 1_000, maxMs: 60_000 },
  /** The runtime failed, memory was short. */
  failed: { retries: 2, baseMs: 1_000, maxMs: 60_000 },
  /** The device cannot do it, and says so: asking again changes nothing. */
  refused: { retries: 0, baseMs: 0, maxMs: 0 },
}

/**
 * How long to wait after the `count`-th failure of its kind (>= 1): "full jitter", uniform between nothing and a bound
 * that doubles. M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015.
 * @returns ms; undefined: no further attempt
 */
export function retryDelayMs(failure: AttemptFailure, count: number, random: Random): number | undefined {
  const { retries, baseMs, maxMs } = retryRules[failure]
  if (count > retries) return undefined
  return random.next() * Math.min(maxMs, baseMs * 2 ** (count - 1))
}
