import { decodeHalves } from '../../kit/base/half.ts'
import { decodeQ2K, decodeQ3K, decodeQ4K, decodeQ5K, decodeQ6K } from './gguf/k-quants.ts'
import { decodeQ4, decodeQ5, decodeQ8, unpackQ4, unpackQ8 } from './gguf/legacy-quants.ts'

/** Weights in blocks along the rows, as MatMulNBits reads them: (code - zero point) · scale. */
export interface BlockPacking {
  readonly bits: 4 | 8
  /** Consecutive weights that share a scale. */
  readonly blockSize: number
  /** Each block has one; otherwise it is half of all codes. */
  readonly zeroPoints: boolean
}

export interface PackedValues {
  /** One for each weight. */
  readonly codes: Uint8Array
  /** One for each block. */
  readonly scales: Float32Array
  /** One for each block, where blocks have them. */
  readonly zeroPoints?: Uint8Array
}

/** How the values of a tensor are stored: blocks of a fixed size, of one value or more. */
interface TensorType {
  readonly values: number
  readonly bytes: number
  /** @param bytes whole blocks, at an offset that is a multiple of 4 */
  decode(bytes: Uint8Array, into: Float32Array): void
  /** Where the blocks can be repacked without loss. */
  readonly packing?: BlockPacking
  unpack?(bytes: Uint8Array, into: PackedValues): void
}

const types: Readonly<Record<string, TensorType>> = {
  F32: { values: 1, bytes: 4, decode: (bytes, into) => into.set(new Float32Array(bytes.buffer, bytes.byteOffset, into.length)) },
  F16: { values: 1, bytes: 2, decode: (bytes, into) => decodeHalves(words(bytes), into) },
  BF16: { values: 1, bytes: 2, decode: (bytes, into) => decodeBfloats(words(bytes), into) },
  Q4_0: {
    values: 32,
    bytes: 18,
    decode: decodeQ4(false),
    packing: { bits: 4, blockSize: 32, zeroPoints: false },
    unpack: unpackQ4,
  },
  Q4_1: { values: 32, bytes: 20, decode: decodeQ4(true) },
  Q5_0: { values: 32, bytes: 22, decode: decodeQ5(false) },
  Q5_1: { values: 32, bytes: 24, decode: decodeQ5(true) },
  Q8_0: { values: 32, bytes: 34, decode: decodeQ8, packing: { bits: 8, blockSize: 32, zeroPoints: false }, unpack: unpackQ8 },
  Q2_K: { values: 256, bytes: 84, decode: decodeQ2K },
  Q3_K: { values: 256, bytes: 110, decode: decodeQ3K },
  Q4_K: { values: 256, bytes: 144, decode: decodeQ4K },
  Q5_K: { values: 256, bytes: 176, decode: decodeQ5K },
  Q6_K: { values: 256, bytes: 210, decode: decodeQ6K },
}

/** The types that Brim reads. F32, F16 and BF16 come in safetensors and GGUF, the others in GGUF. */
export function tensorType(dtype: string): TensorType | undefined {
  return Object.hasOwn(types, dtype) ? types[dtype] : undefined
}

export const floatTypes: readonly string[] = ['F32', 'F16', 'BF16']
export const blockTypes: readonly string[] = Object.keys(types).filter((name) => !floatTypes.includes(name))
/** Whose weights have lost precision before. AWQ and GPTQ: group-quants.ts. */
export const quantisedTypes: readonly string[] = [...blockTypes, 'AWQ', 'GPTQ']

/** With scales and minima; of AWQ and GPTQ without, as these depend on the size of their groups. */
export function bitsPerWeight(dtype: string): number {
  const type = tensorType(dtype)
  return type ? (8 * type.bytes) / type.values : 4
}

const words = (bytes: Uint8Array) => new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2)

/** bfloat16 is the upper half of a float32. */
function decodeBfloats(bfloats: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, bfloats.length)
  for (let i = 0; i < bfloats.length; i++) bits[i] = bfloats[i]! << 16
}
