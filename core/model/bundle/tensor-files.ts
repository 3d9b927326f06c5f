import { type FileHandle, open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BrimError, orThrow } from '../../kit/base/errors.ts'
import { decodeHalves } from '../../kit/base/half.ts'
import { headerLength, parseHeader, prefixBytes, type TensorInfo } from './safetensors.ts'

/** Bytes that one read takes from a file; it bounds memory for checkpoints of any size. */
const chunkBytes = 8 << 20

const readable = ['F32', 'F16', 'BF16']
const isReadable = ({ dtype }: TensorInfo) => readable.includes(dtype)

/** Values of each tensor that are compared at once (4 MiB as fp32). */
const comparedValues = 1 << 20

export interface TensorSource {
  /** Reads the values `from` (inclusive) to `from + into.length` of a tensor as float32. */
  read(name: string, from: number, into: Float32Array): Promise<void>
}

/** Reads a drafter's own tensors from `own` and those it shares with the LLM from `model`. */
export function preferOwn(own: TensorFiles, model: TensorFiles): TensorSource {
  return { read: (name, from, into) => (own.find(name) ? own : model).read(name, from, into) }
}

/** The tensors of one or several safetensors files, read in pieces by position. */
export class TensorFiles implements TensorSource, AsyncDisposable {
  readonly #tensors = new Map<string, { info: TensorInfo; handle: FileHandle }>()
  readonly #handles: FileHandle[] = []
  readonly #chunk = Buffer.alloc(chunkBytes)

  /** For error messages: the name of the file, or "the safetensors files" if there are several. */
  readonly name: string

  private constructor(name: string) {
    this.name = name
  }

  /**
   * @param folder prefix of the file names in error messages
   * @throws BrimError SAFETENSORS_INVALID, CHECKPOINT_INVALID
   */
  static async open(paths: readonly string[], folder = ''): Promise<TensorFiles> {
    const named = paths.map((path) => [path, join(folder, basename(path))] as const)
    const files = new TensorFiles(named.length === 1 && named[0] ? named[0][1] : 'the safetensors files')
    try {
      for (const [path, name] of named) await files.#add(path, name)
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

  /**
   * @throws BrimError SAFETENSORS_INVALID if the file has shrunk since it was opened, VALUE_OUT_OF_RANGE for NaN and infinity
   */
  async read(name: string, from: number, into: Float32Array): Promise<void> {
    const tensor = this.#tensors.get(name)
    if (!tensor) throw new Error(`the tensor ${name} is not in ${this.name}`)
    const size = tensor.info.dtype === 'F32' ? 4 : 2
    const atOnce = chunkBytes / size
    for (let done = 0; done < into.length; done += atOnce) {
      const piece = into.subarray(done, done + atOnce)
      await this.#fill(tensor, (from + done) * size, piece.length * size)
      this.#decode(tensor.info.dtype, piece)
      if (!allFinite(piece))
        throw new BrimError('VALUE_OUT_OF_RANGE', `${tensor.info.file}: the tensor ${name} holds NaN or infinity`, {
          hint: 'the checkpoint is damaged: copy or download it again',
        })
    }
  }

  /** Both tensors exist, are readable, and have the same shape and values; their types may differ. */
  async areEqual(first: string, second: string): Promise<boolean> {
    const [a, b] = [this.find(first), this.find(second)]
    if (!(a && b) || a.shape.join() !== b.shape.join()) return false
    if (!(isReadable(a) && isReadable(b))) return false
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

  async #add(path: string, file: string): Promise<void> {
    const handle = await openToRead(path)
    this.#handles.push(handle)
    const status = await handle.stat()
    if (!status.isFile()) throw new BrimError('CHECKPOINT_INVALID', `${path} is not a file`)
    const { size } = status
    const prefix = Buffer.alloc(Math.min(prefixBytes, size))
    await handle.read(prefix, 0, prefix.length, 0)
    const json = Buffer.alloc(headerLength(file, prefix, size))
    await handle.read(json, 0, json.length, prefixBytes)
    for (const info of parseHeader(file, json, size)) {
      const other = this.find(info.name)
      if (other)
        throw new BrimError('SAFETENSORS_INVALID', `the tensor ${info.name} is both in ${other.file} and in ${file}`, {
          hint: 'remove the file that does not belong to the checkpoint',
        })
      this.#tensors.set(info.name, { info, handle })
    }
  }

  async #fill({ info, handle }: { info: TensorInfo; handle: FileHandle }, from: number, bytes: number): Promise<void> {
    let done = 0
    while (done < bytes) {
      const { bytesRead } = await handle.read(this.#chunk, done, bytes - done, info.offset + from + done)
      if (bytesRead === 0)
        throw new BrimError('SAFETENSORS_INVALID', `${info.file} became shorter while the tensor ${info.name} was read`)
      done += bytesRead
    }
  }

  #decode(dtype: string, into: Float32Array): void {
    const { buffer, byteOffset } = this.#chunk
    if (dtype === 'F32') into.set(new Float32Array(buffer, byteOffset, into.length))
    else if (dtype === 'F16') decodeHalves(new Uint16Array(buffer, byteOffset, into.length), into)
    else decodeBfloats(new Uint16Array(buffer, byteOffset, into.length), into)
  }
}

/** @throws BrimError TENSOR_MISMATCH if the type is unreadable or the shape differs */
export function checkTensor(info: TensorInfo, shape: readonly number[]): void {
  if (!isReadable(info))
    throw new BrimError('TENSOR_MISMATCH', `${info.file}: the tensor ${info.name} is ${info.dtype}, not ${readable.join(', ')}`, {
      hint: 'quantised checkpoints cannot be converted: build from the original weights',
    })
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

/** bfloat16 is the upper half of a float32. */
function decodeBfloats(bfloats: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, bfloats.length)
  for (let i = 0; i < bfloats.length; i++) bits[i] = bfloats[i]! << 16
}

/** NaN times 0 and infinity times 0 are NaN, and NaN survives the sum. */
function allFinite(values: Float32Array): boolean {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i]! * 0
  return sum === 0
}
