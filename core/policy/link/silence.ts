import type { LinkRates } from '../estimate/link-rates.ts'

/** What a device waits for, and by what link. */
export interface PendingReplies {
  /** Of the frames without a reply, and of the replies. */
  readonly bytesUp: number
  readonly bytesDown: number
  readonly rates: Pick<LinkRates, 'upBytesPerS' | 'downBytesPerS' | 'rttS' | 'cloudS'>
}

/** How much later than predicted is late: one measurement says little of the next. */
const slack = 4
/** Asking costs a few bytes, so we ask soon; giving up costs a replay, so a lost packet may be sent again three times. */
const leastS = { ask: 0.25, giveUp: 2 }
/** Then the heartbeat has noticed. */
const mostS = 20
/** A link that has carried nothing yet: a slow one. */
const unknownBytesPerS = 64_000

/**
 * Silence of a bridge that owes replies. The first of them is due after a round trip, the transfers (everything under way,
 * at β_up and β_down) and its computing (as measured).
 * @returns seconds of silence after which the bridge is asked whether it lives
 */
export function askAfterS(awaited: PendingReplies): number {
  return bounded(leastS.ask, wayS(awaited) + awaited.rates.cloudS)
}

/**
 * The question goes behind everything under way, as its answer does, and takes no computing.
 * @returns seconds of further silence after which the link is taken for dead
 */
export function giveUpAfterS(awaited: PendingReplies): number {
  return bounded(leastS.giveUp, wayS(awaited))
}

const wayS = ({ bytesUp, bytesDown, rates: { rttS, upBytesPerS, downBytesPerS } }: PendingReplies) =>
  rttS + bytesUp / (upBytesPerS ?? unknownBytesPerS) + bytesDown / (downBytesPerS ?? unknownBytesPerS)

const bounded = (least: number, expectedS: number) => Math.min(mostS, Math.max(least, slack * expectedS))
