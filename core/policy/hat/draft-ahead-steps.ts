/** One verification as the device sees it before it sends. */
export interface RoundTrip {
  /** Rows that go up and come back: the draft's and the pending token's, k + 1. */
  readonly rows: number
  /** A: bytes of a hidden state. */
  readonly bytesPerToken: number
  readonly upBytesPerS: number
  readonly downBytesPerS: number
  /** Propagation both ways, in seconds. */
  readonly rttS: number
  /** Waiting for the step, in seconds. */
  readonly waitS: number
  /** g(μ): computing the step, in seconds. */
  readonly computeS: number
}

/** Predicted seconds from sending the rows to having their deep states. */
export function roundTripS(trip: RoundTrip): number {
  const { rows, bytesPerToken, upBytesPerS, downBytesPerS } = trip
  const bytes = rows * bytesPerToken
  return trip.rttS + bytes / upBytesPerS + trip.waitS + trip.computeS + bytes / downBytesPerS
}

/**
 * λ of HAT Eq. 6: how many steps the device can draft ahead while a verification is away. The paper leaves the
 * propagation delay and the wait out and counts k rows; with `rttS` and `waitS` 0 and `rows` k this is its form.
 * @param stepS γ_c: seconds of one drafting step over all candidates, > 0
 * @returns whole steps, >= 0
 */
export function draftAheadSteps(trip: RoundTrip, stepS: number): number {
  return Math.max(0, Math.floor(roundTripS(trip) / stepS))
}
