import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError, orThrow } from '../../kit/base/errors.ts'
import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'
import type { WeightEntry } from '../bundle/manifest.ts'
import { embeddingWeight } from '../bundle/weight-plan.ts'
import { packsMatrices } from './packs-matrices.ts'
import { loadReleasePages } from './resident-memory.ts'
import type { MappedFile, Runtime, Tensor } from './runtime.ts'

/** Values that are read and converted in one piece. */
const chunkValues = 1 << 20

export interface PartWeights {
  /** By the names of the graphs' initialisers. */
  readonly tensors: ReadonlyMap<string, Tensor>
  /**
   * Compiles graphs over them, for which the library reads all weights. It computes matrix products with packed copies of its
   * own, so that afterwards the memory of the weights is given back to the system.
   */
  pack<T>(compile: () => Promise<T>): Promise<T>
}

/** A float16 weight as the graphs declare it. */
interface ExpandedWeight {
  readonly entry: WeightEntry
  readonly values: Float32Array
  /** Rows of it are read in steps, too. */
  isGathered: boolean
  /** Reads the values; undefined while their memory is given up. */
  filled: Promise<void> | undefined
}

/**
 * The weights of a bundle by file position, so that a weight of two parts (a tied head) is loaded once. Files are mapped;
 * float16 is expanded to float32 in memory, as the graphs declare. Of that, what only the library's packed copies are computed
 * with is given up once graphs are compiled, and expanded again for the next graph.
 */
export class WeightStore {
  readonly #runtime: Runtime
  readonly #folder: string
  readonly #files = new Map<string, MappedFile>()
  /** Of files with float16. Held open: a bundle may be replaced before the next graph is compiled. */
  readonly #handles = new Map<string, FileHandle>()
  readonly #tensors = new Map<string, Tensor>()
  readonly #expanded = new Map<Tensor, ExpandedWeight>()
  readonly #releasePages = loadReleasePages()
  #packing = 0
  #canGiveUp: boolean | undefined

  constructor(runtime: Runtime, folder: string) {
    this.#runtime = runtime
    this.#folder = folder
  }

  /** @throws BrimError BUNDLE_CORRUPT, OUT_OF_MEMORY */
  async load(entries: readonly WeightEntry[]): Promise<PartWeights> {
    const tensors = new Map<string, Tensor>()
    for (const entry of entries) tensors.set(entry.name, await this.#load(entry))
    const expanded = [...new Set(tensors.values())].flatMap((tensor) => this.#expanded.get(tensor) ?? [])
    return { tensors, pack: (compile) => this.#pack(expanded, compile) }
  }

  /** Gives the pages of mapped weights back to the system, until they are read again. */
  releasePages(): void {
    for (const file of this.#files.values()) file.releasePages()
  }

  /** Must be called only after all engine sessions are released. */
  async release(): Promise<void> {
    const { device } = this.#runtime
    if (device) await device.free([...this.#tensors.values()])
    else for (const tensor of this.#tensors.values()) tensor.release()
    for (const file of this.#files.values()) file.close()
    for (const handle of this.#handles.values()) await handle.close()
    this.#handles.clear()
    this.#tensors.clear()
    this.#expanded.clear()
    this.#files.clear()
  }

  async #pack<T>(expanded: readonly ExpandedWeight[], compile: () => Promise<T>): Promise<T> {
    this.#packing++
    try {
      const [first] = expanded
      if (first) this.#canGiveUp ??= await packsMatrices(this.#runtime, this.#folder, first.entry.file)
      for (const weight of expanded) await this.#fill(weight)
      return await compile()
    } finally {
      this.#packing--
      if (this.#packing === 0) {
        if (this.#canGiveUp) this.#giveUpExpanded()
        this.releasePages()
      }
    }
  }

  #giveUpExpanded(): void {
    for (const weight of this.#expanded.values())
      if (!weight.isGathered && this.#releasePages(weight.values)) weight.filled = undefined
  }

  async #fill(weight: ExpandedWeight): Promise<void> {
    weight.filled ??= this.#read(weight)
    try {
      await weight.filled
    } catch (error) {
      weight.filled = undefined
      throw error
    }
  }

  async #load(entry: WeightEntry): Promise<Tensor> {
    const place = `${entry.file}:${entry.offset}:${entry.type}:${entry.dims}`
    const tensor = this.#tensors.get(place) ?? (await this.#place(entry, await this.#convert(entry)))
    this.#tensors.set(place, tensor)
    const expanded = this.#expanded.get(tensor)
    if (expanded && entry.name === embeddingWeight) expanded.isGathered = true
    return tensor
  }

  /** Moves a weight to the memory of the device, if there is one: there all engine sessions share it. */
  async #place({ name, bytes }: WeightEntry, tensor: Tensor): Promise<Tensor> {
    const { device } = this.#runtime
    if (!device) return tensor
    const placed: Tensor[] = []
    try {
      const there = await device.allocate(tensor.type, tensor.dims)
      placed.push(there)
      await device.check(placed)
      await device.copy([[tensor, there]])
      return there
    } catch (cause) {
      await device.free(placed)
      if (!(cause instanceof BrimError) || cause.code !== 'OUT_OF_MEMORY') throw cause
      const message = `the device has no memory for the weight ${name} of ${bytes} bytes, or not in one piece`
      throw new BrimError('OUT_OF_MEMORY', message, { cause, hint: cause.hint })
    } finally {
      this.#expanded.delete(tensor)
      tensor.release()
    }
  }

  /** A weight as the graphs declare it. */
  async #convert(entry: WeightEntry): Promise<Tensor> {
    const type = this.#runtime.device?.type ?? 'float32'
    if (entry.type === 'uint8' || entry.type === type) return this.#map(entry)
    return type === 'float32' ? this.#expand(entry) : this.#narrow(entry)
  }

  #map({ file, type, dims, offset, bytes }: WeightEntry): Tensor {
    const path = join(this.#folder, file)
    const mapped = this.#files.get(file) ?? this.#runtime.mapFile(path)
    this.#files.set(file, mapped)
    if (offset + bytes > mapped.bytes) throw cutShort(path, mapped.bytes, offset + bytes)
    return mapped.tensor(type, dims, offset)
  }

  async #expand(entry: WeightEntry): Promise<Tensor> {
    const weight: ExpandedWeight = { entry, values: allocate(entry.bytes / 2, entry.file), isGathered: false, filled: undefined }
    await this.#fill(weight)
    const tensor = this.#runtime.tensor('float32', entry.dims, weight.values)
    this.#expanded.set(tensor, weight)
    return tensor
  }

  async #narrow({ name, file, dims, offset, bytes }: WeightEntry): Promise<Tensor> {
    const { path, handle } = await this.#open(file)
    const halves = orThrow(
      () => new Uint16Array(bytes / 4),
      'OUT_OF_MEMORY',
      `not enough memory to round ${path} to fp16`,
      lessMemory,
    )
    const chunk = new Float32Array(Math.min(chunkValues, halves.length))
    for (let at = 0; at < halves.length; at += chunkValues) {
      const floats = chunk.subarray(0, Math.min(chunkValues, halves.length - at))
      await readValues(handle, path, offset + 4 * at, floats)
      if (encodeHalves(floats, halves.subarray(at, at + floats.length)) >= 0)
        throw new BrimError('BUNDLE_INVALID', `${path} cannot be computed in fp16: values of ${name} are larger`, {
          hint: 'choose --provider-compute fp32, or --provider cpu',
        })
    }
    return this.#runtime.tensor('float16', dims, halves)
  }

  async #read({ entry: { file, offset }, values }: ExpandedWeight): Promise<void> {
    const { path, handle } = await this.#open(file)
    const chunk = new Uint16Array(Math.min(chunkValues, values.length))
    for (let at = 0; at < values.length; at += chunkValues) {
      const halves = chunk.subarray(0, Math.min(chunkValues, values.length - at))
      await readValues(handle, path, offset + 2 * at, halves)
      decodeHalves(halves, values.subarray(at, at + halves.length))
    }
  }

  async #open(file: string): Promise<{ path: string; handle: FileHandle }> {
    const path = join(this.#folder, file)
    const known = this.#handles.get(file)
    const handle =
      known ??
      (await open(path).catch((cause: unknown) => {
        throw new BrimError('BUNDLE_CORRUPT', `${path} cannot be read`, { cause, hint: 'build the bundle again' })
      }))
    this.#handles.set(file, handle)
    return { path, handle }
  }
}

async function readValues(handle: FileHandle, path: string, at: number, into: Uint16Array | Float32Array): Promise<void> {
  const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength)
  const { bytesRead } = await handle.read(bytes, 0, bytes.length, at)
  if (bytesRead < bytes.length) throw cutShort(path, at + bytesRead, at + bytes.length)
}

const lessMemory = 'build the bundle with --format int4'

function allocate(values: number, file: string): Float32Array {
  return orThrow(() => new Float32Array(values), 'OUT_OF_MEMORY', `not enough memory to expand ${file} to float32`, lessMemory)
}

const cutShort = (path: string, is: number, needed: number) =>
  new BrimError('BUNDLE_CORRUPT', `${path} ends at byte ${is}, but its weights end at ${needed}`, {
    hint: 'build the bundle again',
  })
