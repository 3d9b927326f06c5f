import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { isLfsPointer, lfsHint, lfsProblem } from '../../kit/base/lfs-pointer.ts'

/** Bytes per value of every type in the format. Brim reads only F32, F16 and BF16. */
const typeBytes: Readonly<Record<string, number>> = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  U16: 2,
  I16: 2,
  F16: 2,
  BF16: 2,
  U32: 4,
  I32: 4,
  F32: 4,
  U64: 8,
  I64: 8,
  F64: 8,
}

export interface TensorInfo {
  readonly name: string
  readonly dtype: string
  readonly shape: readonly number[]
  /** The file's name for error messages. */
  readonly file: string
  /** From the start of the file. */
  readonly offset: number
  readonly bytes: number
  /** Rows of this many heads that are in pairs (0, n/2, 1, n/2 + 1, …), as llama.cpp rotates them; absent: in order. */
  readonly pairedHeads?: number
  /** What is added to each value. Absent: 0. */
  readonly shift?: number
}

/** The format's own limit. A larger header means a damaged or hostile file. */
const maxHeaderBytes = 100_000_000
/** The file begins with the header's length, uint64 little-endian. */
export const prefixBytes = 8

const Entry = z.object({
  dtype: z.string(),
  shape: z.array(z.int().min(0)),
  data_offsets: z.tuple([z.int().min(0), z.int().min(0)]),
})

/** @returns the length in bytes of the JSON header after the prefix. @throws BrimError SAFETENSORS_INVALID */
export function headerLength(file: string, prefix: Uint8Array, fileBytes: number): number {
  if (prefix.length < prefixBytes) throw invalid(file, `has ${fileBytes} bytes, too few for a header`)
  if (isLfsPointer(prefix)) throw new BrimError('SAFETENSORS_INVALID', `${file} ${lfsProblem}`, { hint: lfsHint })
  const length = new DataView(prefix.buffer, prefix.byteOffset, prefixBytes).getBigUint64(0, true)
  if (length > BigInt(maxHeaderBytes)) throw invalid(file, `claims a header of ${length} bytes`)
  if (Number(length) + prefixBytes > fileBytes)
    throw invalid(file, `claims a header of ${length} bytes, but the file ends after ${fileBytes}`)
  return Number(length)
}

/**
 * Reads a header and checks that types are known, sizes match the shapes, and tensors lie within the file without overlap.
 * @throws BrimError SAFETENSORS_INVALID naming the file and the tensor
 */
export function parseHeader(file: string, json: Uint8Array, fileBytes: number): TensorInfo[] {
  const start = prefixBytes + json.length
  const header = parseJson(file, json)
  const tensors = Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, value]) => readEntry(file, name, value, start, fileBytes))
  checkOverlap(tensors, (first, second) => invalid(file, `has overlapping tensors ${first} and ${second}`))
  return tensors
}

/** @param overlap makes the error of two tensors, by name */
export function checkOverlap(tensors: readonly TensorInfo[], overlap: (first: string, second: string) => BrimError): void {
  const inOrder = tensors.filter((tensor) => tensor.bytes > 0).sort((a, b) => a.offset - b.offset)
  for (const [i, next] of inOrder.entries()) {
    const previous = inOrder[i - 1]
    if (previous && next.offset < previous.offset + previous.bytes) throw overlap(previous.name, next.name)
  }
}

function parseJson(file: string, json: Uint8Array): object {
  try {
    const header: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json))
    if (typeof header === 'object' && header !== null && !Array.isArray(header)) return header
  } catch (cause) {
    throw invalid(file, 'has a header that is not JSON', cause)
  }
  throw invalid(file, 'has a header that is not a JSON object')
}

function readEntry(file: string, name: string, value: unknown, start: number, fileBytes: number): TensorInfo {
  const parsed = Entry.safeParse(value)
  if (!parsed.success) throw invalid(file, `has an unreadable entry for the tensor ${name}`, parsed.error)
  const { dtype, shape, data_offsets } = parsed.data
  const size = Object.hasOwn(typeBytes, dtype) ? typeBytes[dtype] : undefined
  if (size === undefined) throw invalid(file, `gives the tensor ${name} the unknown type ${dtype}`)
  const [from, to] = data_offsets
  const bytes = shape.reduce((product, dim) => product * dim, size)
  if (to - from !== bytes)
    throw invalid(file, `gives the tensor ${name} ${to - from} bytes, but ${dtype} [${shape.join(', ')}] has ${bytes}`)
  if (start + to > fileBytes)
    throw invalid(file, `is cut short: the tensor ${name} ends at byte ${start + to}, the file at ${fileBytes}`)
  return { name, dtype, shape, file, offset: start + from, bytes }
}

function invalid(file: string, what: string, cause?: unknown): BrimError {
  return new BrimError('SAFETENSORS_INVALID', `${file} ${what}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'the file is damaged or is not in the safetensors format: copy or download it again',
  })
}
