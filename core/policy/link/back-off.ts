/** Reconnections that a bridge accepts with ease: each costs it a TLS handshake, a signature and a commit. */
const acceptedPerS = 250
/** Bound of the first wait of a small fleet, and where the bridge has not announced the size of its fleet. */
const firstMs = { smallFleet: 250, unknownFleet: 1_000 }
/** No announcement holds a device back for longer. */
const maxSpreadMs = 300_000

export interface BackoffLimits {
  readonly firstMs: number
  readonly maxMs: number
}

/**
 * The bound of the first wait is the time that the bridge needs to accept its whole fleet.
 * @param fleetSize devices of the bridge, as it announced; undefined: it has not
 * @param maxMs bound of the longest wait, unless the first one is longer
 */
export function backoffLimits(fleetSize: number | undefined, maxMs: number): BackoffLimits {
  const spreadMs = fleetSize === undefined ? firstMs.unknownFleet : (fleetSize / acceptedPerS) * 1_000
  const first = Math.min(maxSpreadMs, Math.max(firstMs.smallFleet, spreadMs))
  return { firstMs: first, maxMs: Math.max(first, maxMs) }
}

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
export function fullJitterMs(failures: number, { firstMs, maxMs }: BackoffLimits, uniform: number): number {
  return uniform * Math.min(maxMs, firstMs * 2 ** (failures - 1))
}

/** Shortest time between the starts of two attempts that applications request: a busy one must not flood the network. */
const requestGapMs = 500

/**
 * @param dueMs when the back-off allows the next attempt
 * @param startedMs start of the last attempt
 * @param isRequested whether an application waits for an attempt
 * @returns ms until the next attempt; 0 or less: now
 */
export const msUntilAttempt = (dueMs: number, startedMs: number, isRequested: boolean, nowMs: number): number =>
  (isRequested ? Math.min(dueMs, startedMs + requestGapMs) : dueMs) - nowMs
