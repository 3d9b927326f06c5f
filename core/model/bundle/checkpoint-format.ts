import { type Int4BlockSize, int4BlockSizes } from './architecture.ts'
import type { Format } from './manifest.ts'
import { headTensor } from './parameters.ts'
import type { TensorInfo } from './safetensors.ts'
import type { CheckpointTensors } from './tensor-files.ts'
import { type BlockPacking, bitsPerWeight, quantisedTypes } from './tensor-types.ts'

/** What a checkpoint with quantised layers is best stored as. */
export interface CheckpointFormat {
  /** The smallest format that has no fewer bits than the layers have on average, with their scales. */
  readonly name: Format
  /** Of the blocks that most of the layers' weights have; undefined where they must be rounded again. */
  readonly blockSize: Int4BlockSize | undefined
  readonly zeroPoints: boolean
  /** Embedding or head have more than the bits of int4. */
  readonly needsFinerVocabulary: boolean
}

/** Q4_1 and Q4_K have 5 and 4.5 bits with their scales, int4 as many. */
const maxInt4Bits = 5

/** @returns undefined if the layers are not quantised */
export function checkpointFormat(tensors: CheckpointTensors): CheckpointFormat | undefined {
  const layers = tensors.tensors.filter(({ name, shape }) => /^model\.(language_model\.)?layers\./.test(name) && shape.length > 1)
  const valuesOf = ({ shape }: TensorInfo) => shape.reduce((product, dim) => product * dim, 1)
  const all = layers.reduce((sum, info) => sum + valuesOf(info), 0)
  if (!layers.some(({ dtype }) => quantisedTypes.includes(dtype))) return undefined
  const bits = layers.reduce((sum, info) => sum + bitsPerWeight(info.dtype) * valuesOf(info), 0) / all
  const packings = new Map<string, { packing: BlockPacking; values: number }>()
  for (const info of layers) {
    const packing = tensors.packingOf(info.name)
    const key = JSON.stringify(packing)
    if (packing) packings.set(key, { packing, values: valuesOf(info) + (packings.get(key)?.values ?? 0) })
  }
  const [most] = [...packings.values()].sort((a, b) => b.values - a.values)
  const vocabulary = tensors.tensors.filter(({ name }) => name === headTensor || name.endsWith('.embed_tokens.weight'))
  return {
    name: bits <= maxInt4Bits ? 'int4' : 'int8',
    blockSize: int4BlockSizes.find((size) => size === most?.packing.blockSize),
    zeroPoints: most?.packing.zeroPoints ?? false,
    needsFinerVocabulary: vocabulary.some(({ dtype }) => bitsPerWeight(dtype) > maxInt4Bits),
  }
}
