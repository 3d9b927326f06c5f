import { bundledLibrary, loadLibrary, type OrtLibrary, type Pointer } from './capi-library.ts'
import { PrepackedWeights } from './capi-prepacked.ts'
import { listProviders } from './capi-providers.ts'
import { type CapiSession, createCapiSession } from './capi-session.ts'
import { createPointer } from './capi-status.ts'
import { bytesPer, CapiTensor } from './capi-tensor.ts'
import { mapReadOnly } from './mapped-file.ts'
import type { EngineSession, EngineSessionOptions, MappedFile, Runtime, RuntimeInfo, TensorData, TensorType } from './runtime.ts'

/** ORT_LOGGING_LEVEL_FATAL: errors are returned as statuses, so the library prints nothing. */
const logLevelFatal = 4

/**
 * Opens ONNX Runtime through its C API.
 * @param options.library path of a libonnxruntime; default: the one of onnxruntime-node
 * @throws BrimError RUNTIME_UNAVAILABLE
 */
export async function openRuntime(options: { readonly library?: string | undefined } = {}): Promise<Runtime> {
  return new CapiRuntime(loadLibrary(options.library || bundledLibrary()))
}

class CapiRuntime implements Runtime {
  readonly info: RuntimeInfo
  readonly #library: OrtLibrary
  readonly #env: Pointer
  readonly #memoryInfo: Pointer
  readonly #prepacked: PrepackedWeights
  readonly #sessions = new Set<CapiSession>()
  #closed: Promise<void> | undefined

  constructor(library: OrtLibrary) {
    const { api, path, version } = library
    this.#library = library
    this.#env = createPointer(api, 'starting', (out) => api.createEnv(logLevelFatal, 'brim', out))
    // OrtDeviceAllocator, OrtMemTypeDefault: plain memory of this process.
    this.#memoryInfo = createPointer(api, 'starting', (out) => api.createCpuMemoryInfo(0, 0, out))
    this.#prepacked = new PrepackedWeights(api)
    this.info = { library: path, version, providers: listProviders(library, this.#env) }
  }

  tensor(type: TensorType, dims: readonly number[], data: TensorData): CapiTensor {
    return this.#tensor(type, dims, data)
  }

  mapFile(path: string): MappedFile {
    const mapping = mapReadOnly(path)
    return {
      bytes: mapping.bytes,
      tensor: (type, dims, offset) => {
        const end = offset + dims.reduce((product, dim) => product * dim, bytesPer(type))
        if (end > mapping.bytes) throw new RangeError(`${path} ends at ${mapping.bytes}, a ${type} tensor [${dims}] at ${end}`)
        return this.#tensor(type, dims, mapping.address + BigInt(offset))
      },
      releasePages: () => mapping.releasePages(),
      close: () => mapping.unmap(),
    }
  }

  async session(graph: Uint8Array, options: EngineSessionOptions): Promise<EngineSession> {
    if (this.#closed) throw new Error('the runtime is closed')
    const { weights } = options
    const prepacked = weights && this.#prepacked.acquire(weights)
    const forget = () => weights && this.#prepacked.release(weights)
    try {
      const session: CapiSession = await createCapiSession(this.#library, this.#env, prepacked, graph, options, () => {
        forget()
        this.#sessions.delete(session)
      })
      this.#sessions.add(session)
      return session
    } catch (error) {
      forget()
      throw error
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#release()
    return this.#closed
  }

  #tensor(type: TensorType, dims: readonly number[], memory: TensorData | Pointer): CapiTensor {
    return new CapiTensor(this.#library.api, this.#memoryInfo, type, dims, memory)
  }

  async #release(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.release()))
    const { api } = this.#library
    api.releaseMemoryInfo(this.#memoryInfo)
    api.releaseEnv(this.#env)
  }
}
