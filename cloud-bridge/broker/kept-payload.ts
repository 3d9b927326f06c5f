/**
 * A copy in memory of its own, for payloads that are kept: as received it is part of what was read from the socket at once, and
 * would keep all of that.
 */
export function keptPayload(payload: Uint8Array | string): Buffer {
  const received = typeof payload === 'string' ? Buffer.from(payload) : payload
  const kept = Buffer.allocUnsafeSlow(received.byteLength)
  kept.set(received)
  return kept
}
