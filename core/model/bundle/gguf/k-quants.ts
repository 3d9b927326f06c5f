import { halfAt } from './half-at.ts'

/**
 * ggml's K-quants (ggml-quants.c, MIT): superblocks of 256 weights in sub-blocks of 16 or 32, whose scales and minima are
 * themselves integers with a common factor in fp16. Products are rounded to fp32 in ggml's order.
 */
const superblock = 256
const { fround } = Math

/** 2 bits, sub-blocks of 16, scale and minimum of 4 bits each. */
export function decodeQ2K(bytes: Uint8Array, into: Float32Array): void {
  for (let at = 0, out = 0; out < into.length; at += 84, out += superblock) {
    const scale = halfAt(bytes, at + 80)
    const minimum = halfAt(bytes, at + 82)
    for (let i = 0; i < superblock; i++) {
      const factors = bytes[at + (i >>> 4)]!
      const codes = bytes[at + 16 + (i >>> 7) * 32 + (i & 31)]!
      const code = (codes >>> (((i >>> 5) & 3) * 2)) & 3
      into[out + i] = fround(scale * (factors & 15)) * code - fround(minimum * (factors >>> 4))
    }
  }
}

/** 3 bits, the highest apart, sub-blocks of 16 with a signed scale of 6 bits. */
export function decodeQ3K(bytes: Uint8Array, into: Float32Array): void {
  for (let at = 0, out = 0; out < into.length; at += 110, out += superblock) {
    const scale = halfAt(bytes, at + 108)
    for (let i = 0; i < superblock; i++) {
      const block = i >>> 4
      const packed = bytes[at + 96 + (block & 7)]!
      const low = block < 8 ? packed & 15 : packed >>> 4
      const high = (bytes[at + 104 + (block & 3)]! >>> ((block >>> 2) * 2)) & 3
      const code = (bytes[at + 32 + (i >>> 7) * 32 + (i & 31)]! >>> (((i >>> 5) & 3) * 2)) & 3
      const isHigh = (bytes[at + (i & 31)]! >>> (i >>> 5)) & 1
      into[out + i] = fround(scale * ((low | (high << 4)) - 32)) * (code - (isHigh ? 0 : 4))
    }
  }
}

/** 4 bits, sub-blocks of 32, scale and minimum of 6 bits each. */
export function decodeQ4K(bytes: Uint8Array, into: Float32Array): void {
  for (let at = 0, out = 0; out < into.length; at += 144, out += superblock)
    for (let block = 0; block < 8; block++) {
      const { scale, minimum } = factors(bytes, at, block)
      const codes = at + 16 + (block >>> 1) * 32
      const shift = (block & 1) * 4
      for (let i = 0; i < 32; i++) into[out + block * 32 + i] = scale * ((bytes[codes + i]! >>> shift) & 15) - minimum
    }
}

/** As Q4_K, with a fifth bit apart. */
export function decodeQ5K(bytes: Uint8Array, into: Float32Array): void {
  for (let at = 0, out = 0; out < into.length; at += 176, out += superblock)
    for (let block = 0; block < 8; block++) {
      const { scale, minimum } = factors(bytes, at, block)
      const codes = at + 48 + (block >>> 1) * 32
      const shift = (block & 1) * 4
      for (let i = 0; i < 32; i++) {
        const fifth = (bytes[at + 16 + i]! >>> block) & 1
        into[out + block * 32 + i] = scale * (((bytes[codes + i]! >>> shift) & 15) | (fifth << 4)) - minimum
      }
    }
}

/** 6 bits in two parts, sub-blocks of 16 with a signed scale of 8 bits. */
export function decodeQ6K(bytes: Uint8Array, into: Float32Array): void {
  for (let at = 0, out = 0; out < into.length; at += 210, out += superblock) {
    const scale = halfAt(bytes, at + 208)
    for (let i = 0; i < superblock; i++) {
      const [part, quarter, column] = [i >>> 7, (i >>> 5) & 3, i & 31]
      const low = (bytes[at + part * 64 + (quarter & 1) * 32 + column]! >>> ((quarter >>> 1) * 4)) & 15
      const high = (bytes[at + 128 + part * 32 + column]! >>> (quarter * 2)) & 3
      const factor = (bytes[at + 192 + (i >>> 4)]! << 24) >> 24
      into[out + i] = fround(scale * factor) * ((low | (high << 4)) - 32)
    }
  }
}

/** The 6-bit scale and minimum of one of eight sub-blocks, times the superblock's factors. */
function factors(bytes: Uint8Array, at: number, block: number): { scale: number; minimum: number } {
  const packed = at + 4
  const low = bytes[packed + (block & 3)]!
  const middle = bytes[packed + 4 + (block & 3)]!
  const high = bytes[packed + 8 + (block & 3)]!
  const scale = block < 4 ? low & 63 : (high & 15) | ((low >>> 6) << 4)
  const minimum = block < 4 ? middle & 63 : (high >>> 4) | ((middle >>> 6) << 4)
  return { scale: fround(halfAt(bytes, at) * scale), minimum: fround(halfAt(bytes, at + 2) * minimum) }
}
