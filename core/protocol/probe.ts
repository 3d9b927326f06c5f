import { BrimError } from '../base/errors.ts'
import { decodeFrame, dtypes, encodeFrame, frameTypes, frameVersion, headerBytes, peekFrame } from './frame.ts'

/** Largest payload of a probe: enough to see a link by, too little to keep one busy. */
export const maxProbeBytes = 32 * 1024

/**
 * What measures a link that nothing else uses: bytes that mean nothing, in a frame of session 0. The bridge answers at
 * once, under the same seq, with the first `want` of them (so never with more than came); its answer wants none.
 */
export interface Probe {
  readonly seq: number
  readonly want: number
  readonly payload: Uint8Array
}

export function encodeProbe({ seq, want, payload }: Probe): Uint8Array {
  return encodeFrame({ type: 'probe', session: 0n, epoch: 0, seq, want }, payload)
}

/** The probe type within a session is malformed like any other frame that has no place there. */
export function isProbe(bytes: Uint8Array): boolean {
  if (bytes.byteLength < headerBytes) return false
  return bytes[0] === frameVersion && bytes[1] === frameTypes.probe && peekFrame(bytes).session === 0n
}

/**
 * @param bytes of which `isProbe` is true
 * @returns its payload is a view of the bytes
 * @throws BrimError FRAME_INVALID
 */
export function decodeProbe(bytes: Uint8Array): Probe {
  const { seq, want, payload, dtype, flags } = decodeFrame(bytes)
  if (dtype !== dtypes.none || flags !== 0) throw invalid(`a probe of dtype ${dtype} with flags ${flags}`)
  if (payload.byteLength > maxProbeBytes)
    throw invalid(`a probe of ${payload.byteLength} bytes, where ${maxProbeBytes} are the most`)
  if (want > payload.byteLength) throw invalid(`a probe of ${payload.byteLength} bytes that wants ${want} back`)
  return { seq, want, payload }
}

const invalid = (why: string) => new BrimError('FRAME_INVALID', `malformed frame: ${why}`)
