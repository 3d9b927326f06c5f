import { defaultInt4BlockSize, type Int4BlockSize } from './architecture.ts'

/** A code, and its share of the block's scale. */
export const int4BytesPerWeight = 1 / 2 + Float32Array.BYTES_PER_ELEMENT / defaultInt4BlockSize

/** A block whose values are all smaller is stored as zeros: the inverse of its scale could overflow. */
const minExtreme = 1e-30

/**
 * Symmetric int4 in blocks, as MatMulNBits and GatherBlockQuantized read it: code = round(value / scale) + 8, two
 * codes a byte, the even one in the low bits. The scale is the block's extreme value over -8, so that the extreme is exact
 * and all sixteen codes are used.
 * @param values whole rows, row-major, columns a multiple of the block size; replaced by the dequantised values
 * @param codes values.length / 2 bytes
 * @param scales one for each block
 */
export function quantizeInt4(values: Float32Array, blockSize: Int4BlockSize, codes: Uint8Array, scales: Float32Array): void {
  for (let block = 0, start = 0; start < values.length; block++, start += blockSize) {
    const scale = scaleOf(values, start, blockSize)
    const inverse = scale === 0 ? 0 : 1 / scale
    scales[block] = scale
    for (let i = start; i < start + blockSize; i += 2) {
      const low = codeOf(values[i]!, inverse)
      const high = codeOf(values[i + 1]!, inverse)
      codes[i >>> 1] = low | (high << 4)
      values[i] = (low - 8) * scale
      values[i + 1] = (high - 8) * scale
    }
  }
}

function scaleOf(values: Float32Array, start: number, blockSize: number): number {
  let largest = 0
  let smallest = 0
  for (let i = start; i < start + blockSize; i++) {
    const value = values[i]!
    if (value > largest) largest = value
    else if (value < smallest) smallest = value
  }
  const extreme = largest >= -smallest ? largest : smallest
  return Math.abs(extreme) < minExtreme ? 0 : Math.fround(extreme / -8)
}

/** The nearest code. Only values of the opposite sign to the extreme can round to 16. */
function codeOf(value: number, inverse: number): number {
  const code = (value * inverse + 8.5) | 0
  return Math.min(code, 15)
}
