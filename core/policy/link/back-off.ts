export interface BackoffLimits {
  readonly baseMs: number
  readonly maxMs: number
}

export const reconnectLimits: BackoffLimits = { baseMs: 1_000, maxMs: 300_000 }

/** A connection that closed sooner than this counts as a failure: the other side may reject the device again and again. */
const stableMs = 30_000

/**
 * Failures in a row after a failed attempt, or after a connection that has closed.
 * @param lastedMs from the start of the attempt to its end
 */
export const failuresAfter = (failures: number, lastedMs: number): number => (lastedMs < stableMs ? failures + 1 : 1)

/**
 * Wait before the next attempt: "full jitter", uniform between 0 and a bound that doubles with each failure, so that a fleet
 * that lost its bridge does not reconnect in step. M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015.
 * @param failures in a row, >= 1
 * @param uniform a random number in [0, 1)
 * @returns ms, 0 <= ms < maxMs
 */
export function fullJitterMs(failures: number, { baseMs, maxMs }: BackoffLimits, uniform: number): number {
  return uniform * Math.min(maxMs, baseMs * 2 ** (failures - 1))
}
