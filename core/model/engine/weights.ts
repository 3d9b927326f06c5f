import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError, orThrow } from '../../kit/base/errors.ts'
import { decodeHalves } from '../../kit/base/half.ts'
import type { WeightEntry } from '../bundle/manifest.ts'
import type { MappedFile, Runtime, Tensor } from './runtime.ts'

/** fp16 values that are read and expanded in one piece. */
const chunkValues = 1 << 20

/** The weights of one part. */
export interface PartWeights {
  /** By the names of the graphs' initialisers. */
  readonly tensors: ReadonlyMap<string, Tensor>
  /**
   * Compiles a graph over them, for which the library reads all weights. It computes matrix products with packed copies of its
   * own, so that afterwards the pages that it has read are given back to the system.
   */
  pack<T>(compile: () => Promise<T>): Promise<T>
}

/**
 * The weights of a bundle by file position, so that a weight of two parts (a tied head) is loaded once. Files are mapped;
 * float16 is expanded to float32 in memory, as the graphs declare.
 */
export class WeightStore {
  readonly #runtime: Runtime
  readonly #folder: string
  readonly #files = new Map<string, MappedFile>()
  readonly #tensors = new Map<string, Tensor>()

  constructor(runtime: Runtime, folder: string) {
    this.#runtime = runtime
    this.#folder = folder
  }

  /** @throws BrimError BUNDLE_CORRUPT, OUT_OF_MEMORY */
  async load(entries: readonly WeightEntry[]): Promise<PartWeights> {
    const tensors = new Map<string, Tensor>()
    for (const entry of entries) tensors.set(entry.name, await this.#load(entry))
    return {
      tensors,
      pack: async (compile) => {
        try {
          return await compile()
        } finally {
          this.releasePages()
        }
      },
    }
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
    this.#tensors.clear()
    this.#files.clear()
  }

  async #load(entry: WeightEntry): Promise<Tensor> {
    const place = `${entry.file}:${entry.offset}:${entry.type}:${entry.dims}`
    const known = this.#tensors.get(place)
    if (known) return known
    const tensor = await this.#place(entry.type === 'float16' ? await this.#expand(entry) : this.#map(entry))
    this.#tensors.set(place, tensor)
    return tensor
  }

  /** Moves a weight to the memory of the device, if there is one: there all engine sessions share it. */
  async #place(tensor: Tensor): Promise<Tensor> {
    const { device } = this.#runtime
    if (!device) return tensor
    const placed = await device.allocate(tensor.type, tensor.dims)
    await device.copy([[tensor, placed]])
    tensor.release()
    return placed
  }

  #map({ file, type, dims, offset, bytes }: WeightEntry): Tensor {
    const path = join(this.#folder, file)
    const mapped = this.#files.get(file) ?? this.#runtime.mapFile(path)
    this.#files.set(file, mapped)
    if (offset + bytes > mapped.bytes) throw cutShort(path, mapped.bytes, offset + bytes)
    return mapped.tensor(type, dims, offset)
  }

  async #expand({ file, dims, offset, bytes }: WeightEntry): Promise<Tensor> {
    const path = join(this.#folder, file)
    const values = allocate(bytes / 2, file)
    const handle = await open(path).catch((cause: unknown) => {
      throw new BrimError('BUNDLE_CORRUPT', `${path} cannot be read`, { cause, hint: 'build the bundle again' })
    })
    try {
      await expandHalves(handle, path, offset, values)
    } finally {
      await handle.close()
    }
    return this.#runtime.tensor('float32', dims, values)
  }
}

async function expandHalves(handle: FileHandle, path: string, offset: number, values: Float32Array): Promise<void> {
  const chunk = new Uint16Array(Math.min(chunkValues, values.length))
  for (let at = 0; at < values.length; at += chunkValues) {
    const halves = chunk.subarray(0, Math.min(chunkValues, values.length - at))
    const position = offset + 2 * at
    const { bytesRead } = await handle.read(new Uint8Array(halves.buffer, 0, halves.byteLength), 0, halves.byteLength, position)
    if (bytesRead < halves.byteLength) throw cutShort(path, position + bytesRead, offset + 2 * values.length)
    decodeHalves(halves, values.subarray(at, at + halves.length))
  }
}

function allocate(values: number, file: string): Float32Array {
  return orThrow(
    () => new Float32Array(values),
    'OUT_OF_MEMORY',
    `not enough memory to expand ${file} to float32`,
    'build the bundle with --format int4',
  )
}

const cutShort = (path: string, is: number, needed: number) =>
  new BrimError('BUNDLE_CORRUPT', `${path} ends at byte ${is}, but its weights end at ${needed}`, {
    hint: 'build the bundle again',
  })
