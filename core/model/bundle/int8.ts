import type { Int4BlockSize } from './architecture.ts'

const zeroPoint = 128
/** A block whose values are all smaller is stored as zeros: the inverse of its scale could overflow. */
const minExtreme = 1e-30

/**
 * Symmetric int8 in blocks, as MatMulNBits and GatherBlockQuantized read it: code = round(value / scale) + 128, where the
 * extreme value of a block is ±127 steps.
 * @param values whole rows, row-major, columns a multiple of the block size; replaced by the dequantised values
 * @param codes one for each value
 * @param scales one for each block
 */
export function quantizeInt8(values: Float32Array, blockSize: Int4BlockSize, codes: Uint8Array, scales: Float32Array): void {
  for (let block = 0, start = 0; start < values.length; block++, start += blockSize) {
    let extreme = 0
    for (let i = start; i < start + blockSize; i++) extreme = Math.max(extreme, Math.abs(values[i]!))
    const scale = extreme < minExtreme ? 0 : Math.fround(extreme / 127)
    const inverse = scale === 0 ? 0 : 1 / scale
    scales[block] = scale
    for (let i = start; i < start + blockSize; i++) {
      const step = Math.round(values[i]! * inverse)
      codes[i] = step + zeroPoint
      values[i] = step * scale
    }
  }
}
