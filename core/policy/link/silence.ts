import type { LinkRates } from '../estimate/link-rates.ts'

/** The replies that a device waits for, and the rates of its link. */
export interface PendingReplies {
  /** Bytes of the unanswered frames, and of their replies. */
  readonly bytesUp: number
  readonly bytesDown: number
  readonly rates: Pick<LinkRates, 'upBytesPerS' | 'downBytesPerS' | 'rttS' | 'cloudS'>
}

/** Replies may take this many times the predicted time: rates vary from one measurement to the next. */
const slack = 4
/** A ping costs a few bytes, so it is sent soon. Giving up costs a replay, so TCP gets time for three retransmissions. */
const minS = { ask: 0.25, giveUp: 2 }
/** By then the heartbeat has detected it. */
const maxS = 20
/** Assumed rate of a link that has not been measured: slow. */
const unknownBytesPerS = 64_000

/**
 * The first reply is due after a round trip, the transfers of everything in flight (at β_up and β_down) and the measured
 * computing time.
 * @returns seconds of silence after which the bridge is pinged
 */
export function askAfterS(pending: PendingReplies): number {
  return bounded(minS.ask, transferS(pending) + pending.rates.cloudS)
}

/**
 * The ping and its pong queue behind everything in flight, and take no computing time.
 * @returns seconds of further silence after which the connection is closed
 */
export function giveUpAfterS(pending: PendingReplies): number {
  return bounded(minS.giveUp, transferS(pending))
}

const transferS = ({ bytesUp, bytesDown, rates: { rttS, upBytesPerS, downBytesPerS } }: PendingReplies) =>
  rttS + bytesUp / (upBytesPerS ?? unknownBytesPerS) + bytesDown / (downBytesPerS ?? unknownBytesPerS)

const bounded = (floorS: number, expectedS: number) => Math.min(maxS, Math.max(floorS, slack * expectedS))
