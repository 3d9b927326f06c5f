import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { PicePrompts } from '../../core/answer/sketch/prompts.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { correctedFactor, type ExpansionRun, speedOf } from '../../core/policy/pice/small-model-speed.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import type { ProfiledSmallModel } from '../jobs/profile.ts'
import { tokenRatio } from '../slm/filler.ts'
import { measureModel, measureServer, profileSize, quickSize } from '../slm/measure.ts'
import type { ModelPool } from '../slm/model-pool.ts'
import type { ServerModel } from '../slm/server-model.ts'
import type { BorrowedModel, SmallModels } from './small-models.ts'
import type { SpeedStore, StoredSpeed } from './speed-store.ts'

export interface DeviceSmallModelsOptions {
  readonly pool: ModelPool
  readonly server: ServerModel | undefined
  /** Models that need more memory are left out. */
  readonly limitBytes: number
  readonly threads: number
  readonly speeds: SpeedStore
  /** Of a bundle; undefined: of the server. @throws BrimError PROMPTS_INVALID */
  readonly promptsOf: (folder: string | undefined) => Promise<PicePrompts>
  /** The split model on this device, whose tokens the bridge counts. */
  readonly llm: () => TextModel | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** A model, wherever it runs. */
interface Known {
  readonly name: string
  /** Null: on a server. */
  readonly bundle: { readonly modelId: string; readonly folder: string; readonly bytes: number } | null
  /** Of its measured speed. */
  readonly key: string
}

/** A model that has not been measured is taken to read its weights at these rates, once for each token. */
const assumedBytesPerMs = { memory: 4e6, disk: 2e5 }
/** And its prompt in the time of so many tokens. */
const assumedPrefillTokens = 8
/** Time after which a server that could not be measured is tried again. */
const retryMs = 60_000

/** The small models of a device: those of the pool, and one on a server, which is taken to be the ablest. */
export class DeviceSmallModels implements SmallModels {
  readonly #options: DeviceSmallModelsOptions
  /** Keys of bundles that could not be opened or measured. */
  readonly #unfit = new Set<string>()
  readonly #closing = new AbortController()
  #measuring: Promise<void> | undefined
  #wake = () => {}
  #isServerCurrent = false

  constructor(options: DeviceSmallModelsOptions) {
    this.#options = options
  }

  list(): SmallModelSpeed[] {
    const { pool, speeds, limitBytes } = this.#options
    return this.#known.flatMap(({ name, bundle, key }) => {
      const speed = speeds.of(key) ?? (bundle && assumedSpeed(bundle.bytes))
      // A server that was never reached, or a bundle that cannot be opened.
      if (!speed || this.#unfit.has(key) || (bundle && bundle.bytes > limitBytes)) return []
      const loadMs = pool.isOpen(name) ? 0 : speed.loadMs
      return [speedOf({ ...speed, model: name, loadMs }, speed.factor)]
    })
  }

  get current(): string | undefined {
    const { pool, server } = this.#options
    return this.#isServerCurrent ? server?.name : pool.current
  }

  async borrow(name: string, signal: AbortSignal): Promise<BorrowedModel> {
    const { pool, server, promptsOf } = this.#options
    this.#isServerCurrent = name === server?.name
    if (server && name === server.name) {
      const prompts = await promptsOf(undefined)
      return { open: { kind: 'server', endpoint: server.endpoint, prompts }, loadMs: 0, release() {} }
    }
    const { model, source, loadMs, release } = await pool.borrow(name, signal)
    try {
      if (loadMs > 0) this.#correctLoad(name, loadMs)
      return { open: { kind: 'bundle', model, prompts: await promptsOf(source.folder) }, loadMs, release }
    } catch (error) {
      release()
      throw error
    }
  }

  record({ model, ...run }: { readonly model: string } & ExpansionRun): void {
    const known = this.#known.find(({ name }) => name === model)
    const speed = known && this.#options.speeds.of(known.key)
    if (speed) this.#options.speeds.save(known.key, { ...speed, factor: correctedFactor(speed.factor, { ...speed, model }, run) })
  }

  /** The model on a server. */
  get server(): Endpoint | undefined {
    return this.#options.server?.endpoint
  }

  /** Names of all models, ascending by size. */
  get names(): readonly string[] {
    return this.#known.map(({ name }) => name)
  }

  /**
   * Measures a model thoroughly, with the time to open it unless another answer uses it.
   * @throws BrimError as its opening, and as `measureModel` or `measureServer`; the signal's reason
   */
  async profile(name: string, signal: AbortSignal): Promise<ProfiledSmallModel> {
    const known = this.#known.find((one) => one.name === name)
    if (!known) throw new BrimError('MODEL_MISSING', `the small model ${name} is not installed on this device`)
    const { factor: _, ...speed } = await this.#measure(known, true, signal)
    this.#unfit.delete(known.key)
    return { model: name, modelId: known.bundle?.modelId ?? null, bytes: known.bundle?.bytes ?? null, ...speed }
  }

  modelIdOf(name: string): string | null {
    return this.#known.find((known) => known.name === name)?.bundle?.modelId ?? null
  }

  /** Measures new models from now on, quickly and one after another, while the device does its other work. */
  start(): void {
    this.#measuring ??= this.#measureNew()
  }

  /** Models may have been installed. */
  update(): void {
    this.#wake()
  }

  async close(): Promise<void> {
    this.#closing.abort(new BrimError('CANCELED', 'the agent is shutting down'))
    await this.#measuring
  }

  get #known(): Known[] {
    const { pool, server, threads } = this.#options
    const bundles = pool.sources
      .filter(({ name }) => name !== server?.name)
      .map((source) => ({ name: source.name, bundle: source, key: `${source.manifestSha256} threads ${threads}` }))
    return [...bundles, ...(server ? [{ name: server.name, bundle: null, key: `${server.name} at ${server.url}` }] : [])]
  }

  async #measureNew(): Promise<void> {
    const { speeds, clock, logger } = this.#options
    const { signal } = this.#closing
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
      let mustRetry = false
      for (const known of this.#known) {
        if (speeds.of(known.key) || this.#unfit.has(known.key)) continue
        try {
          const { ttftMs, tpotMs, loadMs } = await this.#measure(known, false, signal)
          logger.info({ model: known.name, ttftMs, tpotMs, loadMs }, 'small model measured')
        } catch (err) {
          if (signal.aborted) return
          logger.warn({ err, model: known.name }, 'small model not measured')
          if (known.bundle) this.#unfit.add(known.key)
          else mustRetry = true
        }
      }
      await Promise.race([woken, ...(mustRetry ? [clock.sleep(retryMs, signal).catch(() => {})] : [])])
    }
  }

  /** Afterwards the model is open that was used before. */
  async #measure(known: Known, isThorough: boolean, signal: AbortSignal): Promise<StoredSpeed> {
    const { pool, speeds } = this.#options
    const { name, bundle, key } = known
    const before = pool.current
    const wasOpen = pool.isOpen(name)
    if (isThorough) await pool.closeIdle(name)
    try {
      const measured = await (bundle ? this.#measureBundle(name, isThorough, signal) : this.#measureServer(isThorough, signal))
      const speed = { ...measured, loadMs: measured.loadMs || (speeds.of(key)?.loadMs ?? 0), factor: 1 }
      speeds.save(key, speed)
      return speed
    } finally {
      if (!wasOpen) await pool.closeIdle(name)
      // Where memory holds one model. If it cannot be opened again, its next use says why.
      if (before !== undefined && before !== pool.current)
        await pool.borrow(before, signal).then(
          ({ release }) => release(),
          () => {},
        )
    }
  }

  async #measureBundle(name: string, isThorough: boolean, signal: AbortSignal) {
    const { pool, llm, clock } = this.#options
    const { model, loadMs, release } = await pool.borrow(name, signal)
    try {
      const measured = await measureModel(model, isThorough ? profileSize : quickSize, clock, signal)
      const large = llm()
      const contextTokens = model.text.dims.contextLimit
      return { ...measured, contextTokens, loadMs, tokensPerLlmToken: large ? tokenRatio(model.text, large) : 1 }
    } finally {
      release()
    }
  }

  async #measureServer(isThorough: boolean, signal: AbortSignal) {
    const { server, clock } = this.#options
    if (!server) throw new Error('there is no server')
    const measured = await measureServer(server.endpoint, isThorough ? profileSize : quickSize, clock, signal)
    return { ...measured, loadMs: 0, tokensPerLlmToken: 1 }
  }

  /** A later opening does without the tests of the first. */
  #correctLoad(name: string, loadMs: number): void {
    const { speeds } = this.#options
    const known = this.#known.find((one) => one.name === name)
    const speed = known && speeds.of(known.key)
    if (speed) speeds.save(known.key, { ...speed, loadMs })
  }
}

/** By the size of its weights, before the first measurement. */
function assumedSpeed(bytes: number): StoredSpeed {
  const tpotMs = Math.max(1, bytes / assumedBytesPerMs.memory)
  const ttftMs = assumedPrefillTokens * tpotMs
  return {
    ttftMs,
    tpotMs,
    prefillTokensPerS: 1_000 / tpotMs,
    decodeTokensPerS: 1_000 / tpotMs,
    lengths: [],
    parallel: [],
    loadMs: bytes / assumedBytesPerMs.disk,
    tokensPerLlmToken: 1,
    factor: 1,
  }
}
