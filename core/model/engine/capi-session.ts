import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import type { OrtApi, OrtLibrary, Pointer } from './capi-library.ts'
import { appendProvider } from './capi-providers.ts'
import { check, createPointer } from './capi-status.ts'
import { CapiTensor } from './capi-tensor.ts'
import type { EngineSession, EngineSessionOptions, Tensor } from './runtime.ts'

/**
 * Creates an engine session. It compiles the graph and packs the weights off the event loop.
 * @param prepacked container of prepacked weights that engine sessions share; it must outlive this one
 * @param onRelease called after the release
 */
export async function createCapiSession(
  library: OrtLibrary,
  env: Pointer,
  prepacked: Pointer | undefined,
  graph: Uint8Array,
  options: EngineSessionOptions,
  onRelease: () => void,
): Promise<CapiSession> {
  const { api } = library
  const settings = createPointer(api, 'configuring a graph', (out) => api.createSessionOptions(out))
  try {
    applyOptions(library, env, settings, options)
    const out = new BigUint64Array(1)
    const status = await new Promise<Pointer | null>((resolve, reject) => {
      const done = (error: unknown, result: Pointer | null) => (error ? reject(error) : resolve(result))
      if (prepacked !== undefined)
        api.createSessionFromArrayWithPrepackedWeights.async(env, graph, graph.length, settings, prepacked, out, done)
      else api.createSessionFromArray.async(env, graph, graph.length, settings, out, done)
    })
    keepAlive(graph)
    check(api, status, 'loading a graph')
    return new CapiSession(api, out[0]!, options.weights, onRelease)
  } finally {
    api.releaseSessionOptions(settings)
  }
}

function applyOptions(library: OrtLibrary, env: Pointer, settings: Pointer, options: EngineSessionOptions): void {
  const { api } = library
  const what = 'configuring a graph'
  check(api, api.setIntraOpNumThreads(settings, options.threads), what)
  check(api, api.setInterOpNumThreads(settings, 1), what)
  const entry = (key: string, value: string) => check(api, api.addSessionConfigEntry(settings, key, value), what)
  // Threads that spin between runs would take the cores from the other engine sessions of the process.
  entry('session.intra_op.allow_spinning', '0')
  entry('session.inter_op.allow_spinning', '0')
  if (options.externalFolder !== undefined) entry('session.model_external_initializers_file_folder_path', options.externalFolder)
  for (const [name, tensor] of options.weights ?? []) check(api, api.addInitializer(settings, name, handleOf(tensor)), what)
  for (const name of options.providers ?? []) appendProvider(library, env, settings, name)
}

/** One compiled graph. */
export class CapiSession implements EngineSession {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  readonly #api: OrtApi
  readonly #pointer: Pointer
  /** Held because the engine session reads them in place. */
  readonly #weights: ReadonlyMap<string, Tensor> | undefined
  readonly #onRelease: () => void
  readonly #names: CStrings
  readonly #inputNamePointers: BigUint64Array
  #running = 0
  #released: Promise<void> | undefined
  #idle: (() => void) | undefined

  constructor(api: OrtApi, pointer: Pointer, weights: ReadonlyMap<string, Tensor> | undefined, onRelease: () => void) {
    this.#onRelease = onRelease
    this.#api = api
    this.#pointer = pointer
    this.#weights = weights
    this.inputNames = namesOf(api, pointer, api.sessionGetInputCount, api.sessionGetInputName)
    this.outputNames = namesOf(api, pointer, api.sessionGetOutputCount, api.sessionGetOutputName)
    this.#names = new CStrings([...this.inputNames, ...this.outputNames])
    this.#inputNamePointers = BigUint64Array.from(this.inputNames, (name) => this.#names.pointer(name))
  }

  async run(inputs: ReadonlyMap<string, Tensor>, outputs: ReadonlyMap<string, Tensor>): Promise<void> {
    if (this.#released) throw new Error('an engine session was run after its release')
    const values = new BigUint64Array(this.inputNames.length)
    this.inputNames.forEach((name, at) => {
      const tensor = inputs.get(name)
      if (!tensor) throw new BrimError('RUNTIME_FAILED', `the input ${name} of the graph is missing`)
      values[at] = handleOf(tensor)
    })
    const resultNames = new BigUint64Array(outputs.size)
    const results = new BigUint64Array(outputs.size)
    let at = 0
    for (const [name, tensor] of outputs) {
      resultNames[at] = this.#names.pointer(name)
      results[at++] = handleOf(tensor)
    }
    this.#running++
    try {
      const status = await new Promise<Pointer | null>((resolve, reject) => {
        const done = (error: unknown, result: Pointer | null) => (error ? reject(error) : resolve(result))
        const [names, count] = [this.#inputNamePointers, values.length]
        this.#api.run.async(this.#pointer, null, names, values, count, resultNames, results.length, results, done)
      })
      check(this.#api, status, 'running a graph')
    } finally {
      keepAlive(inputs, outputs, values, results, this.#weights)
      this.#running--
      if (this.#running === 0) this.#idle?.()
    }
  }

  release(): Promise<void> {
    this.#released ??= this.#finish()
    return this.#released
  }

  async #finish(): Promise<void> {
    if (this.#running > 0)
      await new Promise<void>((resolve) => {
        this.#idle = resolve
      })
    this.#api.releaseSession(this.#pointer)
    this.#onRelease()
  }
}

/** Keeps its arguments referenced up to this call, so that the garbage collector cannot free them during a run. */
function keepAlive(..._kept: unknown[]): void {}

function handleOf(tensor: Tensor): Pointer {
  if (tensor instanceof CapiTensor) return tensor.handle
  throw new Error('the tensor belongs to another runtime')
}

function namesOf(
  api: OrtApi,
  session: Pointer,
  count: OrtApi['sessionGetInputCount'],
  name: OrtApi['sessionGetInputName'],
): string[] {
  const what = 'reading the names of a graph'
  const allocator = createPointer(api, what, (out) => api.getAllocatorWithDefaultOptions(out))
  const total = Number(createPointer(api, what, (out) => count(session, out)))
  return Array.from({ length: total }, (_, index) => {
    const pointer = createPointer(api, what, (out) => name(session, index, allocator, out))
    const text = koffi.decode.string(pointer)
    check(api, api.allocatorFree(allocator, pointer), what)
    return text
  })
}

/** Names as C strings at fixed addresses. */
class CStrings {
  readonly #pointers = new Map<string, Pointer>()
  readonly #bytes: Uint8Array

  constructor(names: readonly string[]) {
    const buffer = Buffer.from(`${names.join('\0')}\0`, 'utf8')
    this.#bytes = new Uint8Array(buffer)
    let at = koffi.address(this.#bytes)
    for (const name of names) {
      this.#pointers.set(name, at)
      at += BigInt(Buffer.byteLength(name) + 1)
    }
  }

  pointer(name: string): Pointer {
    const pointer = this.#pointers.get(name)
    if (pointer === undefined || this.#bytes.length === 0)
      throw new BrimError('RUNTIME_FAILED', `the graph has no output ${name}`)
    return pointer
  }
}
