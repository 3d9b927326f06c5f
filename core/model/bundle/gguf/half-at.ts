/** The fp16 number at a position, exact; infinity and NaN included. */
export function halfAt(bytes: Uint8Array, at: number): number {
  const bits = bytes[at]! | (bytes[at + 1]! << 8)
  const exponent = (bits >>> 10) & 31
  const mantissa = bits & 1023
  const sign = bits & 0x8000 ? -1 : 1
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25))
}
