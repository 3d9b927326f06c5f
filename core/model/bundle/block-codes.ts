import type { Int4BlockSize, WeightFormat } from './architecture.ts'
import { quantizeInt4 } from './int4.ts'
import { quantizeInt8 } from './int8.ts'
import type { BlockPacking, PackedValues } from './tensor-types.ts'

/** A format of codes in blocks; undefined: each weight is a number of its own. */
export interface CodeFormat {
  readonly bits: 4 | 8
  readonly blockSize: Int4BlockSize
  readonly zeroPoints: boolean
}

export function codeFormat({ name, blockSize, zeroPoints }: WeightFormat): CodeFormat | undefined {
  if (name === 'int4') return { bits: 4, blockSize, zeroPoints }
  return name === 'int8' ? { bits: 8, blockSize, zeroPoints: false } : undefined
}

/** Codes as they are stored, scales and zero points one for each block; a zero point is half of all codes where there are none. */
export interface StoredBlocks {
  readonly codes: Uint8Array
  readonly scales: Float32Array
  readonly zeroPoints: Uint8Array | undefined
}

export const codeBytes = (values: number, { bits }: CodeFormat): number => (values * bits) / 8

/** Zero points of a row take whole bytes. */
export const zeroPointBytes = (blocks: number, { bits }: CodeFormat): number => Math.ceil((blocks * bits) / 8)

/** Rounds values in place. */
export function quantizeBlocks(
  values: Float32Array,
  { bits, blockSize }: CodeFormat,
  { codes, scales, zeroPoints }: StoredBlocks,
): void {
  if (bits === 8) quantizeInt8(values, blockSize, codes, scales)
  else quantizeInt4(values, blockSize, codes, scales)
  zeroPoints?.fill(8)
}

/** Every weight of the packed form has its value in this format, too. */
export function canRepack(from: BlockPacking | undefined, to: CodeFormat): from is BlockPacking {
  if (!from || from.blockSize % to.blockSize !== 0 || from.bits > to.bits) return false
  return from.bits < to.bits || to.zeroPoints || !from.zeroPoints
}

/** @param packed codes one a byte. @param values receives the weights */
export function repackBlocks(
  from: BlockPacking,
  packed: PackedValues,
  to: CodeFormat,
  into: StoredBlocks,
  values: Float32Array,
): void {
  const centre = 2 ** (from.bits - 1)
  // With zero points of its own, a format keeps the codes; without, they are moved to its centre.
  const shift = to.zeroPoints ? 0 : 2 ** (to.bits - 1)
  const perBlock = from.blockSize / to.blockSize
  for (let block = 0; block < packed.scales.length; block++) {
    const zeroPoint = packed.zeroPoints?.[block] ?? centre
    const scale = packed.scales[block]!
    const offset = to.zeroPoints ? 0 : shift - zeroPoint
    into.scales.fill(scale, block * perBlock, (block + 1) * perBlock)
    into.zeroPoints?.fill(zeroPoint, block * perBlock, (block + 1) * perBlock)
    for (let i = block * from.blockSize; i < (block + 1) * from.blockSize; i++) {
      const code = packed.codes[i]!
      values[i] = (code - zeroPoint) * scale
      const own = code + offset
      if (to.bits === 8) into.codes[i] = own
      else into.codes[i >>> 1] = i & 1 ? into.codes[i >>> 1]! | (own << 4) : own
    }
  }
}

/** @param zeroPoints [rows, blocks] one a byte. @returns [rows, zeroPointBytes] as MatMulNBits reads them */
export function packZeroPoints(zeroPoints: Uint8Array, rows: number, format: CodeFormat): Uint8Array {
  if (format.bits === 8) return zeroPoints
  const blocks = zeroPoints.length / rows
  const rowBytes = zeroPointBytes(blocks, format)
  const packed = new Uint8Array(rows * rowBytes)
  for (let row = 0; row < rows; row++)
    for (let block = 0; block < blocks; block++) {
      const at = row * rowBytes + (block >>> 1)
      packed[at] = packed[at]! | (zeroPoints[row * blocks + block]! << (4 * (block & 1)))
    }
  return packed
}
