import type { ServingSpeeds, StreamState } from '../serving/policy.ts'
import { evictS, loadS } from './resumption.ts'

/** Share of the time that moving KV may take. */
const share = 0.1
/** Longest interval between two choices, in Δt: a buffer that was to last for less may be empty by then. */
const maxIntervals = 8

/** Seconds that it takes to move the KV of a choice between the tiers. */
export function movedS(preempted: readonly StreamState[], resumed: readonly StreamState[], speeds: ServingSpeeds): number {
  let seconds = 0
  for (const stream of preempted) seconds += evictS(stream, speeds)
  for (const stream of resumed) seconds += loadS(stream, speeds)
  return seconds
}

/**
 * Until the next choice: Δt, or longer where it takes longer for a share of the time to pay for what the last choice has moved. Moving KV
 * takes time from the steps of all; TokenFlow's Eq. 3 charges it to the request that is moved, which waits for it. Without this,
 * requests with small buffers take turns so often that each turn yields some 20 tokens, for a swap that costs 5 to 10.
 * @param intervalMs Δt
 */
export const intervalAfter = (movedS: number, intervalMs: number): number =>
  Math.max(intervalMs, Math.min(maxIntervals * intervalMs, (movedS * 1_000) / share))
