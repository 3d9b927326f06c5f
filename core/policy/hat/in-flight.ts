/** Frames that are always allowed in flight: while the bridge computes one, the next is on its way. */
const minInFlight = 2

/** What a device has sent and has no reply to. */
export interface InFlight {
  readonly frames: number
  readonly bytes: number
}

export interface MeasuredLink {
  /** β_up; undefined before the first measurement. */
  readonly upBytesPerS?: number | undefined
  readonly rttS: number
  /** Seconds that the bridge has a frame. */
  readonly cloudS: number
}

/**
 * Back-pressure: beyond the bytes that link and bridge hold at once (β_up over the round trip), one more frame of this size
 * may wait. More would delay the next tokens of other sessions.
 * @returns whether a frame of `bytes` bytes may be sent before the next reply
 */
export function maySend(inFlight: InFlight, bytes: number, { upBytesPerS = 0, rttS, cloudS }: MeasuredLink): boolean {
  return inFlight.frames < minInFlight || inFlight.bytes <= upBytesPerS * (rttS + cloudS) + bytes
}
