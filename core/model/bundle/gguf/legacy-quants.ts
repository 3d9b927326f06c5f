import { halfAt } from './half-at.ts'

/**
 * Blocks of 32 weights as ggml stores them (ggml-quants.c, MIT): a scale in fp16, for Q4_1 and Q5_1 a minimum in fp16, for Q5
 * the fifth bits, then the codes. The low nibbles of a block are its first 16 weights, the high ones the rest.
 */
const blockValues = 32
const half = blockValues / 2

/** Q4_0: (code - 8) · scale; Q4_1: code · scale + minimum. */
export function decodeQ4(hasMinimum: boolean) {
  const header = hasMinimum ? 4 : 2
  return (bytes: Uint8Array, into: Float32Array): void => {
    for (let at = 0, out = 0; out < into.length; at += header + half, out += blockValues) {
      const scale = halfAt(bytes, at)
      const base = hasMinimum ? halfAt(bytes, at + 2) : -8 * scale
      for (let i = 0; i < half; i++) {
        const codes = bytes[at + header + i]!
        into[out + i] = (codes & 15) * scale + base
        into[out + half + i] = (codes >>> 4) * scale + base
      }
    }
  }
}

/** Q5_0: (code - 16) · scale; Q5_1: code · scale + minimum. */
export function decodeQ5(hasMinimum: boolean) {
  const header = hasMinimum ? 4 : 2
  return (bytes: Uint8Array, into: Float32Array): void => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
    for (let at = 0, out = 0; out < into.length; at += header + 4 + half, out += blockValues) {
      const scale = halfAt(bytes, at)
      const base = hasMinimum ? halfAt(bytes, at + 2) : -16 * scale
      const fifth = view.getUint32(at + header, true)
      for (let i = 0; i < half; i++) {
        const codes = bytes[at + header + 4 + i]!
        into[out + i] = ((codes & 15) | (((fifth >>> i) & 1) << 4)) * scale + base
        into[out + half + i] = ((codes >>> 4) | (((fifth >>> (i + half)) & 1) << 4)) * scale + base
      }
    }
  }
}

/** Q8_0: code · scale with signed codes. */
export function decodeQ8(bytes: Uint8Array, into: Float32Array): void {
  for (let at = 0, out = 0; out < into.length; at += 2 + blockValues, out += blockValues) {
    const scale = halfAt(bytes, at)
    for (let i = 0; i < blockValues; i++) into[out + i] = ((bytes[at + 2 + i]! << 24) >> 24) * scale
  }
}

/** The codes of Q4_0 stay as they are. */
export function unpackQ4(bytes: Uint8Array, { codes, scales }: { codes: Uint8Array; scales: Float32Array }): void {
  for (let block = 0; block < scales.length; block++) {
    const at = block * (2 + half)
    scales[block] = halfAt(bytes, at)
    for (let i = 0; i < half; i++) {
      const pair = bytes[at + 2 + i]!
      codes[block * blockValues + i] = pair & 15
      codes[block * blockValues + half + i] = pair >>> 4
    }
  }
}

/** Signed codes become codes with the zero point 128. */
export function unpackQ8(bytes: Uint8Array, { codes, scales }: { codes: Uint8Array; scales: Float32Array }): void {
  for (let block = 0; block < scales.length; block++) {
    const at = block * (2 + blockValues)
    scales[block] = halfAt(bytes, at)
    for (let i = 0; i < blockValues; i++) codes[block * blockValues + i] = bytes[at + 2 + i]! ^ 128
  }
}
