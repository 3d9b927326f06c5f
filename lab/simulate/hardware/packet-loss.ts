import type { Random } from '../../../core/kit/base/random.ts'

/** Payload of a TCP segment on Ethernet. */
const segmentBytes = 1_448

/** Segments at the end of a message whose loss no later segment reveals (RFC 5681: three duplicate acknowledgements). */
const silentSegments = 3

/** Lower bound of the time after which the sender probes for a lost tail (RFC 8985: 2·RTT). */
const minProbeMs = 10

/**
 * The highest rate of a TCP connection that loses this share of its segments (Mathis et al. 1997: MSS/RTT · √(3/2p)).
 *
 * @param share 0 < share < 1
 * @returns bytes per second
 */
export const rateUnderLoss = (share: number, rttMs: number): number =>
  ((1_000 * segmentBytes) / rttMs) * Math.sqrt(3 / (2 * share))

/**
 * How much later a message is complete at the other end because segments of it were lost and sent again. What is lost early
 * is there before the last segment; what is lost at the end is missed only after a probe.
 *
 * @param sendingMs how long the sender needs for it
 * @param share of the segments that are lost, 0 <= share < 1
 */
export function lossDelayMs(bytes: number, sendingMs: number, rttMs: number, share: number, random: Random): number {
  if (share === 0) return 0
  const segments = Math.ceil(bytes / segmentBytes)
  let delayMs = 0
  for (let at = gap(share, random); at < segments; at += 1 + gap(share, random)) {
    const isSilent = segments - at <= silentSegments
    let repairMs = isSilent ? Math.max(2 * rttMs, minProbeMs) : rttMs
    while (random.next() < share) repairMs += 2 * rttMs
    const afterMs = (sendingMs * (segments - 1 - at)) / segments
    delayMs = Math.max(delayMs, repairMs - afterMs)
  }
  return delayMs
}

/** Segments that arrive before the next one is lost: geometrically distributed; exact for shares that 1 − share would round away. */
const gap = (share: number, random: Random): number => Math.floor(Math.log1p(-random.next()) / Math.log1p(-share))
