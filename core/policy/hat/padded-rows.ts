import { type RoundTrip, roundTripS, rowS } from './draft-ahead-steps.ts'

/** Max tokens of drafts where longer frames would cost too much: few drafts are worth more. */
const shortDraft = 7
/** Part of a round trip that the longer frames may add. */
const maxAddedPart = 0.05

/**
 * Rows that all verifications of a session are padded to, so that their length does not tell how much was drafted. It follows from
 * the link and the cloud's delay alone, when the session begins: what is drafted has no part in it.
 * @param limit maximum tokens of a draft, >= 0
 */
export function paddedVerification(limit: number, trip: RoundTrip): number {
  const short = { ...trip, rows: 1 + Math.min(limit, shortDraft) }
  const addedS = (1 + limit - short.rows) * rowS(trip)
  // Of a link that was never measured nothing is expected.
  return addedS > 0 && addedS <= maxAddedPart * roundTripS(short) ? 1 + limit : short.rows
}
