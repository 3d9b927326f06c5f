/** IEEE binary16 by integer arithmetic on blocks: round to nearest, ties to even. */

/** Halves → floats; exact. */
export function decodeHalves(halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, halves.length)
  for (let i = 0; i < halves.length; i++) {
    const half = halves[i]!
    bits[i] = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13)
  }
  // Scaling by 2^112 moves the exponent, also for subnormals; infinities and NaNs are fixed afterwards.
  for (let i = 0; i < halves.length; i++) into[i] = into[i]! * 2 ** 112
  for (let i = 0; i < halves.length; i++) if ((halves[i]! & 0x7c00) === 0x7c00) bits[i] = bits[i]! | 0x7f800000
}

/**
 * Floats → halves.
 * @returns the index of the first value beyond fp16 (it rounds to 65,536 or more, or is NaN), or -1
 */
export function encodeHalves(floats: Float32Array, into: Uint16Array): number {
  const bits = new Uint32Array(floats.buffer, floats.byteOffset, floats.length)
  for (let i = 0; i < bits.length; i++) {
    const value = bits[i]!
    const magnitude = value & 0x7fffffff
    if (magnitude >= firstOverflow) return i
    into[i] = ((value >>> 16) & 0x8000) | (magnitude < smallestNormal ? subnormal(magnitude) : normal(magnitude))
  }
  return -1
}

/** 65,520 in fp32 bits: from this value on, rounding exceeds fp16's range. */
const firstOverflow = 0x477ff000
/** 2^-14 in fp32 bits. */
const smallestNormal = 0x38800000

function normal(magnitude: number): number {
  return (magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13
}

function subnormal(magnitude: number): number {
  const exponent = magnitude >>> 23
  if (exponent < 102) return 0
  const mantissa = (magnitude & 0x7fffff) | 0x800000
  const shift = 126 - exponent
  const half = mantissa >>> shift
  const rest = mantissa & ((1 << shift) - 1)
  const middle = 1 << (shift - 1)
  return rest > middle || (rest === middle && (half & 1) === 1) ? half + 1 : half
}
