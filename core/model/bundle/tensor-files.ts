import { type FileHandle, open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BrimError, orThrow } from '../../kit/base/errors.ts'
import { headerLength, parseHeader, prefixBytes, type TensorInfo } from './safetensors.ts'
import { type BlockPacking, floatTypes, type PackedValues, quantisedTypes, tensorType } from './tensor-types.ts'

/** Bytes that one read takes from a file; it bounds memory for checkpoints of any size. */
const chunkBytes = 8 << 20

/** Values of each tensor that are compared at once (4 MiB as fp32). */
const comparedValues = 1 << 20

export interface TensorSource {
  find(name: string): TensorInfo | undefined
  /** Reads the values `from` (inclusive) to `from + into.length` of a tensor as float32: whole rows, if it is quantised. */
  read(name: string, from: number, into: Float32Array): Promise<void>
  /** How a tensor is packed in the file, if MatMulNBits can read the same values. */
  packingOf(name: string): BlockPacking | undefined
  /** Reads whole rows of a packed tensor, from the value `from`, without loss. */
  readPacked(name: string, from: number, into: PackedValues): Promise<void>
}

/** The tensors of a checkpoint, in any form of file. */
export interface CheckpointTensors extends TensorSource, AsyncDisposable {
  /** For error messages. */
  readonly name: string
  readonly tensors: readonly TensorInfo[]
  /** Both tensors exist, are readable, and have the same shape and values; their types may differ. */
  areEqual(first: string, second: string): Promise<boolean>
}

/** Reads a drafter's own tensors from `own` and those it shares with the LLM from `model`. */
export function preferOwn(own: TensorSource, model: TensorSource): TensorSource {
  const holder = (name: string) => (own.find(name) ? own : model)
  return {
    find: (name) => holder(name).find(name),
    read: (name, from, into) => holder(name).read(name, from, into),
    packingOf: (name) => holder(name).packingOf(name),
    readPacked: (name, from, into) => holder(name).readPacked(name, from, into),
  }
}

/** Lists the tensors of an open file. @param file its name for error messages */
export type ReadHeader = (handle: FileHandle, file: string, fileBytes: number) => Promise<readonly TensorInfo[]>

interface StoredTensor {
  readonly info: TensorInfo
  readonly handle: FileHandle
}

/** The tensors of one or several files, read in pieces by position. */
export class TensorFiles implements CheckpointTensors {
  readonly #tensors = new Map<string, StoredTensor>()
  readonly #handles: FileHandle[] = []
  /** Grows to what one read takes. */
  #chunk = Buffer.alloc(0)

  /** For error messages: the name of the file, or "the checkpoint's files" if there are several. */
  readonly name: string

  private constructor(name: string) {
    this.name = name
  }

  /**
   * @param folder prefix of the file names in error messages
   * @throws BrimError SAFETENSORS_INVALID, CHECKPOINT_INVALID, and what `readHeader` throws
   */
  static async open(paths: readonly string[], { folder = '', readHeader = readSafetensors } = {}): Promise<TensorFiles> {
    const named = paths.map((path) => [path, join(folder, basename(path))] as const)
    const files = new TensorFiles(named.length === 1 && named[0] ? named[0][1] : "the checkpoint's files")
    try {
      for (const [path, name] of named) await files.#add(path, name, readHeader)
      return files
    } catch (error) {
      await files[Symbol.asyncDispose]()
      throw error
    }
  }

  get tensors(): TensorInfo[] {
    return [...this.#tensors.values()].map(({ info }) => info)
  }

  find(name: string): TensorInfo | undefined {
    return this.#tensors.get(name)?.info
  }

  /** Gives tensors other names, or removes those that are undefined. */
  rename(toInfo: (info: TensorInfo) => TensorInfo | undefined): void {
    const stored = [...this.#tensors.values()]
    this.#tensors.clear()
    for (const { info, handle } of stored) {
      const renamed = toInfo(info)
      if (renamed) this.#insert({ info: renamed, handle })
    }
  }

  /**
   * @throws BrimError CHECKPOINT_INVALID if the file has shrunk since it was opened, VALUE_OUT_OF_RANGE for NaN and infinity
   */
  async read(name: string, from: number, into: Float32Array): Promise<void> {
    const { info, handle } = this.#stored(name)
    const { values, bytes, decode } = this.#typeOf(info)
    const pieceValues = this.#pieceValues(info)
    for (let done = 0; done < into.length; done += pieceValues) {
      const piece = into.subarray(done, done + pieceValues)
      for (const run of this.#runs(info, from + done, piece.length)) {
        const data = await this.#fill({ info, handle }, (run.from / values) * bytes, (run.length / values) * bytes)
        decode(data, piece.subarray(run.at, run.at + run.length))
      }
      if (info.shift !== undefined) for (let i = 0; i < piece.length; i++) piece[i] = piece[i]! + info.shift
      this.#checkFinite(info, piece)
    }
  }

  packingOf(name: string): BlockPacking | undefined {
    const info = this.find(name)
    return info && info.shift === undefined ? tensorType(info.dtype)?.packing : undefined
  }

  async readPacked(name: string, from: number, { codes, scales }: PackedValues): Promise<void> {
    const { info, handle } = this.#stored(name)
    const { values, bytes, unpack } = this.#typeOf(info)
    if (!unpack) throw new Error(`the tensor ${name} is not packed`)
    const codeBytes = codes.length / scales.length
    const pieceBlocks = this.#pieceValues(info) / values
    for (let block = 0; block < scales.length; block += pieceBlocks) {
      const blocks = Math.min(pieceBlocks, scales.length - block)
      for (const run of this.#runs(info, from + block * values, blocks * values)) {
        const [first, count] = [block + run.at / values, run.length / values]
        const data = await this.#fill({ info, handle }, (run.from / values) * bytes, count * bytes)
        const piece = scales.subarray(first, first + count)
        unpack(data, { codes: codes.subarray(first * codeBytes, (first + count) * codeBytes), scales: piece })
      }
    }
    this.#checkFinite(info, scales)
  }

  async readBytes(name: string): Promise<ArrayBuffer> {
    const { info, handle } = this.#stored(name)
    const whole = new Uint8Array(info.bytes)
    for (let at = 0; at < whole.length; at += chunkBytes)
      whole.set(await this.#fill({ info, handle }, at, Math.min(chunkBytes, whole.length - at)), at)
    return whole.buffer
  }

  async areEqual(first: string, second: string): Promise<boolean> {
    const [a, b] = [this.find(first), this.find(second)]
    if (!(a && b) || a.shape.join() !== b.shape.join()) return false
    if (!(tensorType(a.dtype) && tensorType(b.dtype))) return false
    const count = a.shape.reduce((product, dim) => product * dim, 1)
    const values = [new Float32Array(comparedValues), new Float32Array(comparedValues)] as const
    for (let from = 0; from < count; from += comparedValues) {
      const [own, other] = values.map((each) => each.subarray(0, count - from)) as [Float32Array, Float32Array]
      await this.read(first, from, own)
      await this.read(second, from, other)
      if (own.some((value, i) => value !== other[i])) return false
    }
    return true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#handles.map((handle) => handle.close()))
  }

  async #add(path: string, file: string, readHeader: ReadHeader): Promise<void> {
    const handle = await openToRead(path)
    this.#handles.push(handle)
    const status = await handle.stat()
    if (!status.isFile()) throw new BrimError('CHECKPOINT_INVALID', `${path} is not a file`)
    for (const info of await readHeader(handle, file, status.size)) this.#insert({ info, handle })
  }

  #insert(tensor: StoredTensor): void {
    const { name, file } = tensor.info
    const other = this.find(name)
    if (other)
      throw new BrimError('CHECKPOINT_INVALID', `the tensor ${name} is both in ${other.file} and in ${file}`, {
        hint: 'remove the file that does not belong to the checkpoint',
      })
    this.#tensors.set(name, tensor)
  }

  #stored(name: string): StoredTensor {
    const tensor = this.#tensors.get(name)
    if (!tensor) throw new Error(`the tensor ${name} is not in ${this.name}`)
    return tensor
  }

  #typeOf({ name, dtype }: TensorInfo) {
    const type = tensorType(dtype)
    if (!type) throw new Error(`the tensor ${name} is ${dtype}, which checkTensor rejects`)
    return type
  }

  /** Values that are read at once: whole blocks, and whole rows where their order differs. */
  #pieceValues(info: TensorInfo): number {
    const { values, bytes } = this.#typeOf(info)
    const unit = info.pairedHeads === undefined ? values : Math.max(values, info.shape[1] ?? 1)
    return Math.max(1, Math.floor(((chunkBytes / bytes) * values) / unit)) * unit
  }

  /** Pieces of `length` values from `from` on that are adjacent in the file: all of them, or rows in the order of their heads. */
  *#runs(
    { shape, pairedHeads }: TensorInfo,
    from: number,
    length: number,
  ): Generator<{ at: number; from: number; length: number }> {
    if (pairedHeads === undefined) return yield { at: 0, from, length }
    const columns = shape[1] ?? 1
    const headRows = shape[0]! / pairedHeads
    for (let at = 0; at < length; at += columns) {
      const row = (from + at) / columns
      const inHead = row % headRows
      const paired = inHead < headRows / 2 ? 2 * inHead : 2 * inHead - headRows + 1
      yield { at, from: (row - inHead + paired) * columns, length: columns }
    }
  }

  /** @returns a view that the next call overwrites */
  async #fill({ info, handle }: StoredTensor, from: number, bytes: number): Promise<Uint8Array> {
    if (this.#chunk.length < bytes) this.#chunk = Buffer.allocUnsafeSlow(bytes)
    let done = 0
    while (done < bytes) {
      const { bytesRead } = await handle.read(this.#chunk, done, bytes - done, info.offset + from + done)
      if (bytesRead === 0)
        throw new BrimError('CHECKPOINT_INVALID', `${info.file} became shorter while the tensor ${info.name} was read`, {
          hint: 'copy or download the file again, and do not change it meanwhile',
        })
      done += bytesRead
    }
    return this.#chunk.subarray(0, bytes)
  }

  #checkFinite({ file, name }: TensorInfo, values: Float32Array): void {
    if (!allFinite(values))
      throw new BrimError('VALUE_OUT_OF_RANGE', `${file}: the tensor ${name} holds NaN or infinity`, {
        hint: 'the checkpoint is damaged: copy or download it again',
      })
  }
}

const readSafetensors: ReadHeader = async (handle, file, fileBytes) => {
  const prefix = Buffer.alloc(Math.min(prefixBytes, fileBytes))
  await handle.read(prefix, 0, prefix.length, 0)
  const json = Buffer.alloc(headerLength(file, prefix, fileBytes))
  await handle.read(json, 0, json.length, prefixBytes)
  return parseHeader(file, json, fileBytes)
}

/** @throws BrimError TENSOR_MISMATCH if the type is unreadable or the shape differs */
export function checkTensor(info: TensorInfo, shape: readonly number[]): void {
  if (!tensorType(info.dtype) && !quantisedTypes.includes(info.dtype))
    throw new BrimError(
      'TENSOR_MISMATCH',
      `${info.file}: the tensor ${info.name} is ${info.dtype}, not ${floatTypes.join(', ')}`,
      {
        hint: 'Brim reads quantised weights from GGUF, AWQ and GPTQ: take one of these, or the original weights',
      },
    )
  if (info.shape.join() !== shape.join())
    throw new BrimError(
      'TENSOR_MISMATCH',
      `${info.file}: the tensor ${info.name} is [${info.shape.join(', ')}], the configuration requires [${shape.join(', ')}]`,
      { hint: 'config.json and the weights belong to different models: copy or download both again' },
    )
}

async function openToRead(path: string): Promise<FileHandle> {
  return orThrow(() => open(path, 'r'), 'CHECKPOINT_INVALID', `cannot open ${path}`, 'check that the file exists and is readable')
}

/** NaN times 0 and infinity times 0 are NaN, and NaN survives the sum. */
function allFinite(values: Float32Array): boolean {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]! * 0
  return sum === 0
}
