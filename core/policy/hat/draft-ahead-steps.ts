/**
 * Tokens of a draft whose alternatives are continued: HAT's last one, or each of them, which prepares for corrections that come
 * earlier and costs more rows in a step.
 */
export const branchings = ['last', 'each'] as const
export type Branching = (typeof branchings)[number]

/** One verification, as the device expects it before it sends. */
export interface RoundTrip {
  /** Rows that travel each way, the pending token's and the draft's: k + 1. */
  readonly rows: number
  /** A: bytes of a hidden state. */
  readonly bytesPerToken: number
  readonly upBytesPerS: number
  readonly downBytesPerS: number
  /** Propagation both ways, in seconds. */
  readonly rttS: number
  /** Seconds until the cloud's step begins. */
  readonly waitS: number
  /** g(μ): seconds of the cloud's step. */
  readonly computeS: number
}

/** Expected seconds from sending the rows to receiving their deep states. */
export function roundTripS({ rows, bytesPerToken, upBytesPerS, downBytesPerS, rttS, waitS, computeS }: RoundTrip): number {
  const bytes = rows * bytesPerToken
  return rttS + bytes / upBytesPerS + waitS + computeS + bytes / downBytesPerS
}

/** Seconds that one row more is on its way, up and down. */
export function rowS({ bytesPerToken, upBytesPerS, downBytesPerS }: RoundTrip): number {
  return bytesPerToken / upBytesPerS + bytesPerToken / downBytesPerS
}

/**
 * λ (HAT Eq. 6): the steps that the device can draft ahead during a verification,
 * λ = ⌊(RTT + (k+1)·A/β_up + wait + g + (k+1)·A/β_down) / γ_c⌋. The paper leaves out propagation and wait and counts k rows:
 * with rttS and waitS 0 and rows k this is its form.
 * @param stepS γ_c: seconds of one drafting step over all candidates, > 0
 * @returns whole steps, >= 0
 */
export function draftAheadSteps(trip: RoundTrip, stepS: number): number {
  return Math.max(0, Math.floor(roundTripS(trip) / stepS))
}

/** The steps to draft ahead at the measured time of one step; 0 before the first measurement. */
export function plannedStepsAhead(
  trip: RoundTrip,
  speed: { draftStepS?: number | undefined; aheadStepS?: number | undefined },
): number {
  const stepS = speed.aheadStepS ?? speed.draftStepS
  return stepS === undefined ? 0 : draftAheadSteps(trip, stepS)
}
