import type { RoundCosts } from './draft-gain.ts'
import type { HatConditions } from './hat-steps.ts'
import type { MeasuredLink } from './in-flight.ts'

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

type VerificationConditions = MeasuredLink & Pick<HatConditions, 'downBytesPerS' | 'verificationS' | 'paddedRows'>

/** @param rows of the verification, where it is not padded to more */
export function roundTripOf(rows: number, bytesPerToken: number, conditions: VerificationConditions): RoundTrip {
  const { upBytesPerS = Number.POSITIVE_INFINITY, downBytesPerS = Number.POSITIVE_INFINITY, rttS, paddedRows = 0 } = conditions
  const { cloudS, verificationS: computeS = cloudS } = conditions
  // The bridge's waiting and computing are measured as one time.
  return { rows: Math.max(rows, paddedRows), bytesPerToken, upBytesPerS, downBytesPerS, rttS, waitS: 0, computeS }
}

type RoundConditions = VerificationConditions & Pick<HatConditions, 'draftStepS'>

/** What a round costs. @param overheadS beside drafting and verification */
export function roundCostsOf(bytesPerToken: number, overheadS: number, conditions: RoundConditions): RoundCosts {
  const trip = roundTripOf(1, bytesPerToken, conditions)
  // A padded frame has room for all rows.
  const rowCostS = conditions.paddedRows === undefined ? rowS(trip) : 0
  return { fixedS: overheadS + roundTripS(trip), draftS: conditions.draftStepS, rowS: rowCostS }
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
