import { setImmediate as nextTurn } from 'node:timers/promises'
import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import { ShortRuns } from '../../policy/estimate/short-runs.ts'
import type { OrtApi, OrtLibrary, Pointer } from './capi-library.ts'
import { appendProvider } from './capi-providers.ts'
import { called, check, createPointer } from './capi-status.ts'
import { CStrings, keepAlive } from './capi-strings.ts'
import { CapiTensor } from './capi-tensor.ts'
import { cpuProvider, type Provider } from './provider.ts'
import type { EngineSession, EngineSessionOptions, Tensor } from './runtime.ts'

/** Short runs block the event loop for so long at most before other work has a turn. */
const maxBlockedMs = 0.5

/** What engine sessions of a runtime have in common. */
export interface SessionHome {
  readonly library: OrtLibrary
  readonly env: Pointer
  readonly provider: Provider
  /** Runs a call that must not coincide with another one to the provider. */
  readonly exclusive: <Result>(call: () => Promise<Result>) => Promise<Result>
  /** How long short runs have blocked the event loop since other work of the process had a turn. */
  readonly blocked: { ms: number }
  /** Paths, without their ends, of profiles that engine sessions write; absent: they write none. */
  readonly nextProfile?: (() => string) | undefined
}

/**
 * Creates an engine session. It compiles the graph and packs the weights off the event loop.
 * @param prepacked container of prepacked weights that engine sessions share; it must outlive this one
 * @param onRelease called after the release
 */
export async function createCapiSession(
  home: SessionHome,
  prepacked: Pointer | undefined,
  graph: Uint8Array,
  options: EngineSessionOptions,
  onRelease: () => void,
): Promise<CapiSession> {
  const { library, env } = home
  const { api } = library
  const settings = createPointer(api, 'configuring a graph', (out) => api.createSessionOptions(out))
  try {
    applyOptions(home, settings, options)
    const out = new BigUint64Array(1)
    const status = await home.exclusive(() =>
      called((done) => {
        if (prepacked !== undefined)
          api.createSessionFromArrayWithPrepackedWeights.async(env, graph, graph.length, settings, prepacked, out, done)
        else api.createSessionFromArray.async(env, graph, graph.length, settings, out, done)
      }),
    )
    keepAlive(graph)
    check(api, status, 'loading a graph')
    return new CapiSession(home, out[0]!, options.weights, onRelease)
  } finally {
    api.releaseSessionOptions(settings)
  }
}

function applyOptions(
  { library, env, provider, nextProfile }: SessionHome,
  settings: Pointer,
  options: EngineSessionOptions,
): void {
  const { api } = library
  const what = 'configuring a graph'
  check(api, api.setIntraOpNumThreads(settings, options.threads), what)
  check(api, api.setInterOpNumThreads(settings, 1), what)
  const entry = (key: string, value: string) => check(api, api.addSessionConfigEntry(settings, key, value), what)
  // Threads that spin between runs would take the cores from the other engine sessions of the process.
  entry('session.intra_op.allow_spinning', '0')
  entry('session.inter_op.allow_spinning', '0')
  // A node on the CPU would copy its rows there and back in every step: then the CPU alone is faster.
  if (nextProfile) check(api, api.enableProfiling(settings, nextProfile()), what)
  else if (provider.name !== cpuProvider.name) entry('session.disable_cpu_ep_fallback', '1')
  // It would read fp16 weights from the file, which may have them in fp32.
  if (provider.name === cpuProvider.name && provider.compute !== undefined)
    entry('optimization.disable_specified_optimizers', 'FuseFp16InitializerToFp32NodeTransformer')
  if (options.externalFolder !== undefined) entry('session.model_external_initializers_file_folder_path', options.externalFolder)
  for (const [name, tensor] of options.weights ?? [])
    check(api, api.addInitializer(settings, name, CapiTensor.handleOf(tensor)), what)
  appendProvider(library, env, settings, provider)
}

/** One compiled graph. */
export class CapiSession implements EngineSession {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  readonly pointer: Pointer
  readonly #api: OrtApi
  readonly #exclusive: SessionHome['exclusive']
  /** Held because the engine session reads them in place. */
  readonly #weights: ReadonlyMap<string, Tensor> | undefined
  readonly #onRelease: () => void
  readonly #inputNamePointers: CStrings
  readonly #outputNamePointers: ReadonlyMap<string, Pointer>
  readonly #outputStrings: CStrings
  readonly #blocked: SessionHome['blocked']
  /** Undefined where runs never block the event loop: on a device, which computes beside it. */
  readonly #shortRuns: ShortRuns | undefined
  #running = 0
  #released: Promise<void> | undefined
  #idle: (() => void) | undefined

  constructor(
    { library: { api }, exclusive, provider, blocked }: SessionHome,
    pointer: Pointer,
    weights: ReadonlyMap<string, Tensor> | undefined,
    onRelease: () => void,
  ) {
    this.#onRelease = onRelease
    this.#api = api
    this.#exclusive = exclusive
    this.#blocked = blocked
    this.#shortRuns = provider.name === cpuProvider.name ? new ShortRuns() : undefined
    this.pointer = pointer
    this.#weights = weights
    this.inputNames = namesOf(api, pointer, api.sessionGetInputCount, api.sessionGetInputName)
    this.outputNames = namesOf(api, pointer, api.sessionGetOutputCount, api.sessionGetOutputName)
    this.#inputNamePointers = new CStrings(this.inputNames)
    this.#outputStrings = new CStrings(this.outputNames)
    this.#outputNamePointers = new Map(this.outputNames.map((name, at) => [name, this.#outputStrings.pointers[at]!]))
  }

  async run(inputs: ReadonlyMap<string, Tensor>, outputs: ReadonlyMap<string, Tensor>, rows?: number): Promise<void> {
    if (this.#released) throw new Error('an engine session was run after its release')
    const values = new BigUint64Array(this.inputNames.length)
    this.inputNames.forEach((name, at) => {
      const tensor = inputs.get(name)
      if (!tensor) throw new BrimError('RUNTIME_FAILED', `the input ${name} of the graph is missing`)
      values[at] = CapiTensor.handleOf(tensor)
    })
    const resultNames = new BigUint64Array(outputs.size)
    const results = new BigUint64Array(outputs.size)
    let at = 0
    for (const [name, tensor] of outputs) {
      resultNames[at] = this.#outputName(name)
      results[at++] = CapiTensor.handleOf(tensor)
    }
    this.#running++
    try {
      const { pointers } = this.#inputNamePointers
      const given = [this.pointer, null, pointers, values, values.length, resultNames, results.length, results] as const
      const startedMs = performance.now()
      const isShort = rows !== undefined && this.#shortRuns?.isShort(rows)
      const status = isShort
        ? this.#api.run(...given)
        : await this.#exclusive(() => called((done) => this.#api.run.async(...given, done)))
      const tookMs = performance.now() - startedMs
      if (rows !== undefined) this.#shortRuns?.record(rows, tookMs)
      if (isShort) await this.#giveTurn(tookMs)
      check(this.#api, status, 'running a graph')
    } finally {
      keepAlive(inputs, outputs, values, results, this.#weights, this.#inputNamePointers, this.#outputStrings)
      this.#running--
      if (this.#running === 0) this.#idle?.()
    }
  }

  /** A chain of short runs would keep sockets and timers waiting. */
  async #giveTurn(blockedMs: number): Promise<void> {
    this.#blocked.ms += blockedMs
    if (this.#blocked.ms < maxBlockedMs) return
    this.#blocked.ms = 0
    await nextTurn()
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
    await this.#exclusive(async () => this.#api.releaseSession(this.pointer))
    this.#onRelease()
  }

  #outputName(name: string): Pointer {
    const pointer = this.#outputNamePointers.get(name)
    if (pointer === undefined) throw new BrimError('RUNTIME_FAILED', `the graph has no output ${name}`)
    return pointer
  }
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
