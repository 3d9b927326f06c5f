import { BrimError } from '../../kit/base/errors.ts'
import { decodeFrame, dtypes, encodeFrame, frameTypes, frameVersion, headerBytes, peekFrame } from './frame.ts'

/** Largest payload of a probe: enough to measure a link, too little to load it. */
export const maxProbeBytes = 32 * 1024

/**
 * Measures an idle link: meaningless bytes in a frame of session 0. The bridge replies at once, with the same seq and the
 * first `want` bytes, so never with more than it received. The reply has `want` 0.
 */
export interface Probe {
  readonly seq: number
  readonly want: number
  readonly payload: Uint8Array
}

export function encodeProbe({ seq, want, payload }: Probe): Uint8Array {
  return encodeFrame({ type: 'probe', session: 0n, epoch: 0, seq, want }, payload)
}

/** Whether it is a frame of type probe in session 0; in any other session that type is invalid. */
export function isProbe(bytes: Uint8Array): boolean {
  if (bytes.byteLength < headerBytes) return false
  return bytes[0] === frameVersion && bytes[1] === frameTypes.probe && peekFrame(bytes).session === 0n
}

/**
 * @param bytes for which `isProbe` is true
 * @returns the probe; its payload is a view of the bytes
 * @throws BrimError FRAME_INVALID
 */
export function decodeProbe(bytes: Uint8Array): Probe {
  const { seq, want, payload, dtype, flags } = decodeFrame(bytes)
  if (dtype !== dtypes.none || flags !== 0) throw invalid(`probe with dtype ${dtype} and flags ${flags}`)
  if (payload.byteLength > maxProbeBytes) throw invalid(`probe of ${payload.byteLength} bytes; the limit is ${maxProbeBytes}`)
  if (want > payload.byteLength) throw invalid(`probe of ${payload.byteLength} bytes requests a reply of ${want}`)
  return { seq, want, payload }
}

const invalid = (why: string) => new BrimError('FRAME_INVALID', `malformed frame: ${why}`)
