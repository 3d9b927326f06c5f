import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { OnnxGraph } from '../bundle/onnx-writer.ts'
import { CapiDevice, onDevice } from './capi-device.ts'
import { bundledLibrary, loadLibrary, type OrtLibrary, type Pointer } from './capi-library.ts'
import { PrepackedWeights } from './capi-prepacked.ts'
import { listProviders, providerFailed } from './capi-providers.ts'
import { type CapiSession, createCapiSession, type SessionHome } from './capi-session.ts'
import { createPointer } from './capi-status.ts'
import { CapiTensor, tensorBytes } from './capi-tensor.ts'
import { rowsComputedRight } from './check-attention.ts'
import { mapReadOnly } from './mapped-file.ts'
import { cpuProvider, hasDeviceMemory, type Provider } from './provider.ts'
import type {
  DeviceMemory,
  EngineSession,
  EngineSessionOptions,
  MappedFile,
  Runtime,
  RuntimeInfo,
  TensorData,
  TensorType,
} from './runtime.ts'

/** ORT_LOGGING_LEVEL_FATAL: errors are returned as statuses, so the library prints nothing. */
const logLevelFatal = 4

export interface RuntimeOptions {
  /** Path of a libonnxruntime. Default: the one of onnxruntime-node. */
  readonly library?: string | undefined
  /** What computes. Default: the CPU. */
  readonly provider?: Provider | undefined
  /**
   * Folder to which each engine session writes a profile of its nodes when it is released. A node may run on the CPU then, and the
   * profile shows it.
   */
  readonly profileFolder?: string | undefined
}

/**
 * Opens ONNX Runtime through its C API.
 * @throws BrimError RUNTIME_UNAVAILABLE, PROVIDER_UNAVAILABLE
 */
export async function openRuntime({ library, provider = cpuProvider, profileFolder }: RuntimeOptions = {}): Promise<Runtime> {
  const runtime = new CapiRuntime(loadLibrary(library || bundledLibrary()), provider, profileFolder)
  try {
    await runtime.start()
    return runtime
  } catch (error) {
    await runtime.close()
    throw error
  }
}

class CapiRuntime implements Runtime {
  readonly #home: SessionHome
  readonly #memoryInfo: Pointer
  readonly #prepacked: PrepackedWeights
  readonly #sessions = new Set<CapiSession>()
  #device: CapiDevice | undefined
  #closed: Promise<void> | undefined

  constructor(library: OrtLibrary, provider: Provider, profileFolder: string | undefined) {
    const { api } = library
    const env = createPointer(api, 'starting', (out) => api.createEnv(logLevelFatal, 'brim', out))
    const exclusive = hasDeviceMemory(provider) ? onDevice : <Result>(call: () => Promise<Result>) => call()
    let profiles = 0
    const nextProfile = profileFolder === undefined ? undefined : () => join(profileFolder, `graph-${profiles++}`)
    this.#home = { library, env, provider, exclusive, blocked: { ms: 0 }, nextProfile }
    // OrtDeviceAllocator, OrtMemTypeDefault: plain memory of this process.
    this.#memoryInfo = createPointer(api, 'starting', (out) => api.createCpuMemoryInfo(0, 0, out))
    this.#prepacked = new PrepackedWeights(api)
  }

  get info(): RuntimeInfo {
    const { library, env, provider } = this.#home
    return { library: library.path, version: library.version, providers: listProviders(library, env), provider: provider.name }
  }

  get device(): DeviceMemory | undefined {
    return this.#device
  }

  /** Starts the provider with a graph that copies rows, whose memory is that of all its graphs. */
  async start(): Promise<void> {
    const { library, env, provider } = this.#home
    if (!hasDeviceMemory(provider)) return
    if (!library.api.devices)
      throw new BrimError('PROVIDER_UNAVAILABLE', `ONNX Runtime ${library.version} computes on the CPU only for Brim`, {
        hint: 'unset ORT_LIB, or set it to ONNX Runtime 1.24 or newer',
      })
    const session = await this.#createSession(copyGraph(), { threads: 1 }).catch((cause: unknown) => {
      throw cause instanceof BrimError && cause.code === 'PROVIDER_UNAVAILABLE' ? cause : providerFailed(library, provider, cause)
    })
    this.#device = new CapiDevice(library.api, env, session.pointer, this.#memoryInfo, provider)
    this.#device.maxRows = await rowsComputedRight(this, this.#device)
  }

  tensor(type: TensorType, dims: readonly number[], data: TensorData): CapiTensor {
    return this.#tensor(type, dims, data)
  }

  mapFile(path: string): MappedFile {
    const mapping = mapReadOnly(path)
    return {
      bytes: mapping.bytes,
      tensor: (type, dims, offset) => {
        const end = offset + tensorBytes(type, dims)
        if (end > mapping.bytes) throw new RangeError(`${path} ends at ${mapping.bytes}, a ${type} tensor [${dims}] at ${end}`)
        return this.#tensor(type, dims, mapping.address + BigInt(offset))
      },
      releasePages: () => mapping.releasePages(),
      close: () => mapping.unmap(),
    }
  }

  async session(graph: Uint8Array, options: EngineSessionOptions): Promise<EngineSession> {
    if (this.#closed) throw new Error('the runtime is closed')
    return this.#createSession(graph, options)
  }

  async #createSession(graph: Uint8Array, options: EngineSessionOptions): Promise<CapiSession> {
    // On a device nothing is packed, or for each engine session anew.
    const weights = this.#device ? undefined : options.weights
    const prepacked = weights && this.#prepacked.acquire(weights)
    const forget = () => weights && this.#prepacked.release(weights)
    try {
      const session: CapiSession = await createCapiSession(this.#home, prepacked, graph, options, () => {
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
    return new CapiTensor(this.#home.library.api, this.#memoryInfo, type, dims, memory)
  }

  async #release(): Promise<void> {
    await this.#device?.release()
    await Promise.all([...this.#sessions].map((session) => session.release()))
    const { library, env } = this.#home
    library.api.releaseMemoryInfo(this.#memoryInfo)
    library.api.releaseEnv(env)
  }
}

/** The smallest graph of any provider. */
function copyGraph(): Uint8Array {
  const graph = new OnnxGraph()
  graph.input('rows', 'float32', ['N'])
  graph.node('Identity', ['rows'], { outputs: ['copy'] })
  graph.output('copy', 'float32', ['N'])
  return graph.encode('copy')
}
