import { BrimError } from '../../../kit/base/errors.ts'
import { checkOverlap, type TensorInfo } from '../safetensors.ts'
import { blockTypes, floatTypes, tensorType } from '../tensor-types.ts'
import { GgufMetadata, type MetadataArray, type MetadataValue } from './gguf-metadata.ts'
import { GgufReader, invalidGguf, maxNameBytes } from './gguf-reader.ts'

/** What a file says of itself: github.com/ggml-org/ggml/blob/master/docs/gguf.md */
export interface GgufHeader {
  readonly metadata: GgufMetadata
  /** Under their names in GGUF, with rows before columns. */
  readonly tensors: readonly TensorInfo[]
}

const maxTensorDims = 4
const maxDim = 2 ** 32
const alignmentKey = 'general.alignment'

/** ggml's numbers of types. Those that Brim does not read are named in the error. */
const typeNames: Readonly<Record<number, string>> = {
  ...{ 0: 'F32', 1: 'F16', 2: 'Q4_0', 3: 'Q4_1', 6: 'Q5_0', 7: 'Q5_1', 8: 'Q8_0', 9: 'Q8_1', 10: 'Q2_K', 11: 'Q3_K' },
  ...{ 12: 'Q4_K', 13: 'Q5_K', 14: 'Q6_K', 15: 'Q8_K', 16: 'IQ2_XXS', 17: 'IQ2_XS', 18: 'IQ3_XXS', 19: 'IQ1_S' },
  ...{ 20: 'IQ4_NL', 21: 'IQ3_S', 22: 'IQ2_S', 23: 'IQ4_XS', 24: 'I8', 25: 'I16', 26: 'I32', 27: 'I64', 28: 'F64' },
  ...{ 29: 'IQ1_M', 30: 'BF16', 34: 'TQ1_0', 35: 'TQ2_0', 39: 'MXFP4', 40: 'NVFP4' },
}

/**
 * Reads metadata and tensor list, and checks that all tensors lie within the file, aligned and without overlap.
 * @param file the file's name for error messages
 * @throws BrimError GGUF_INVALID, QUANTISATION_UNSUPPORTED
 */
export function readGgufHeader(fd: number, file: string, fileBytes: number): GgufHeader {
  const reader = new GgufReader(fd, file, fileBytes)
  reader.readMagic()
  const tensorCount = reader.count('tensors', 24)
  const entryCount = reader.count('metadata entries', 13)
  const entries = new Map<string, MetadataValue>()
  for (let i = 0; i < entryCount; i++) {
    const key = reader.text('a metadata key', maxNameBytes)
    if (entries.has(key)) throw invalidGguf(file, `has the metadata key ${key} twice`)
    entries.set(key, readValue(reader, key))
  }
  const metadata = new GgufMetadata(file, entries)
  const tensors = Array.from({ length: tensorCount }, () => readTensor(reader))
  return { metadata, tensors: placeTensors(reader, tensors, alignmentOf(metadata)) }
}

function readValue(reader: GgufReader, key: string): MetadataValue {
  const type = reader.uint(4, key)
  if (type === 9) return readArray(reader, key)
  return readScalar(reader, key, type)
}

function readScalar(reader: GgufReader, key: string, type: number): number | boolean | string {
  if (type === 0) return reader.uint(1, key)
  if (type === 1) return reader.int(1, key)
  if (type === 2) return reader.uint(2, key)
  if (type === 3) return reader.int(2, key)
  if (type === 4) return reader.uint(4, key)
  if (type === 5) return reader.int(4, key)
  if (type === 6) return reader.float(4, key)
  if (type === 7) return reader.uint(1, key) !== 0
  if (type === 8) return reader.text(key)
  if (type === 10) return reader.long(key)
  if (type === 11) return reader.long(key, true)
  if (type === 12) return reader.float(8, key)
  throw invalidGguf(reader.file, `gives the metadata key ${key} the unknown type ${type}`)
}

/** Bytes that an item of each scalar type has at least. */
const itemBytes = [1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8]

function readArray(reader: GgufReader, key: string): MetadataArray {
  const type = reader.uint(4, key)
  const smallest = itemBytes[type]
  if (!smallest)
    throw invalidGguf(reader.file, `gives the metadata key ${key} an array of ${type === 9 ? 'arrays' : `type ${type}`}`)
  const count = reader.count(`items of ${key}`, smallest)
  const items: MetadataArray = []
  for (let i = 0; i < count; i++) items.push(readScalar(reader, key, type))
  return items
}

function alignmentOf(metadata: GgufMetadata): number {
  const alignment = metadata.find(alignmentKey) ?? 32
  if (typeof alignment === 'number' && alignment >= 1 && alignment <= 65_536 && Number.isInteger(Math.log2(alignment)))
    return alignment
  throw invalidGguf(metadata.file, `has the ${alignmentKey} ${alignment}, which is not a power of two`)
}

/** `offset` counts from the start of the tensors' data. */
function readTensor(reader: GgufReader): TensorInfo {
  const { file } = reader
  const name = reader.text('the name of a tensor', maxNameBytes)
  const dimCount = reader.uint(4, `the tensor ${name}`)
  if (dimCount < 1 || dimCount > maxTensorDims) throw invalidGguf(file, `gives the tensor ${name} ${dimCount} dimensions`)
  const dims = Array.from({ length: dimCount }, () => reader.long(`a dimension of the tensor ${name}`))
  if (dims.some((dim) => dim < 1 || dim > maxDim))
    throw invalidGguf(file, `gives the tensor ${name} the dimensions ${dims.join(', ')}`)
  const typeId = reader.uint(4, `the tensor ${name}`)
  const dtype = Object.hasOwn(typeNames, typeId) ? typeNames[typeId] : undefined
  if (dtype === undefined) throw invalidGguf(file, `gives the tensor ${name} the unknown type ${typeId}`)
  const type = tensorType(dtype)
  if (!type)
    throw new BrimError('QUANTISATION_UNSUPPORTED', `${file}: the tensor ${name} is ${dtype}, which Brim does not read`, {
      hint: `take a file in ${[...floatTypes, ...blockTypes].join(', ')}; of a published model, Q8_0 or Q4_K_M`,
    })
  if (dims[0]! % type.values !== 0)
    throw invalidGguf(file, `gives the tensor ${name} rows of ${dims[0]} values, but ${dtype} has blocks of ${type.values}`)
  const bytes = (dims.reduce((product, dim) => product * dim, 1) / type.values) * type.bytes
  return { name, dtype, shape: [...dims].reverse(), file, offset: reader.long(`the offset of the tensor ${name}`), bytes }
}

function placeTensors(
  { file, fileBytes, position }: GgufReader,
  tensors: readonly TensorInfo[],
  alignment: number,
): TensorInfo[] {
  const start = Math.ceil(position / alignment) * alignment
  const names = new Set<string>()
  const placed = tensors.map((tensor) => {
    if (names.has(tensor.name)) throw invalidGguf(file, `has the tensor ${tensor.name} twice`)
    names.add(tensor.name)
    if (tensor.offset % alignment !== 0)
      throw invalidGguf(file, `has the tensor ${tensor.name} at offset ${tensor.offset}, which is no multiple of ${alignment}`)
    const offset = start + tensor.offset
    if (offset + tensor.bytes > fileBytes)
      throw invalidGguf(
        file,
        `is cut short: the tensor ${tensor.name} ends at byte ${offset + tensor.bytes}, the file at ${fileBytes}`,
      )
    return { ...tensor, offset }
  })
  checkOverlap(placed, (first, second) => invalidGguf(file, `has overlapping tensors ${first} and ${second}`))
  return placed
}
