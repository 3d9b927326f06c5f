import { defaultInt4BlockSize, type Int4BlockSize } from './architecture.ts'

/** A code, and its share of the block's scale. */
export const int4BytesPerWeight = 1 / 2 + Float32Array.BYTES_PER_ELEMENT / defaultInt4BlockSize

/** A block whose values are all smaller is stored as zeros: the inverse of its scale could overflow. */
const minExtreme = 1e-30

/** Steps from zero to the extreme value that are tried. 8 keeps the extreme exact; fewer leave steps unused, more clip it. */
const triedSteps = [8, 7.1, 7.6, 8.5, 9.2]

/**
 * Symmetric int4 in blocks, as MatMulNBits and GatherBlockQuantized read it: code = round(value / scale) + 8, two
 * codes a byte, the even one in the low bits. Of the scales tried, a block gets the one of the least squared error.
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

/** The best of the scales tried, each moved to the least squares of the codes that it gives. */
function scaleOf(values: Float32Array, start: number, blockSize: number): number {
  const extreme = extremeOf(values, start, blockSize)
  if (Math.abs(extreme) < minExtreme) return 0
  let mostExplained = -1
  let best = 0
  for (const steps of triedSteps) {
    const inverse = -steps / extreme
    let products = 0
    let squares = 0
    for (let i = start; i < start + blockSize; i++) {
      const step = codeOf(values[i]!, inverse) - 8
      products += step * values[i]! * inverse
      squares += step * step
    }
    // The squared error of these codes is the block's sum of squares less this. Relative to the extreme, nothing overflows.
    const explained = (products * products) / squares / (steps * steps)
    if (explained <= mostExplained) continue
    mostExplained = explained
    best = products / squares / inverse
  }
  return Math.fround(best)
}

function extremeOf(values: Float32Array, start: number, blockSize: number): number {
  let largest = 0
  let smallest = 0
  for (let i = start; i < start + blockSize; i++) {
    const value = values[i]!
    if (value > largest) largest = value
    else if (value < smallest) smallest = value
  }
  return largest >= -smallest ? largest : smallest
}

/** The nearest code. */
function codeOf(value: number, inverse: number): number {
  const code = (value * inverse + 8.5) | 0
  return code < 0 ? 0 : code > 15 ? 15 : code
}
