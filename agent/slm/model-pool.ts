import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { type HandlersOf, handleKind, type Machine, type OfKind } from '../../core/policy/machine.ts'
import {
  SmallModelPool,
  type SmallModelPoolAction,
  type SmallModelPoolEvent,
  type SmallModelPoolInput,
  type SmallModelPoolSettings,
} from '../../core/policy/pice/small-model-pool.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { LocalModel } from './local-model.ts'
import type { ModelSource } from './model-source.ts'

/** What outlives the closing of a model: its tokenizer, what computes it, and what was measured. */
export type KeptOfModel = Pick<LocalModel, 'text' | 'computing' | 'speed'>

export interface ModelPoolOptions {
  readonly open: (folder: string, kept: KeptOfModel | undefined) => Promise<LocalModel & { close(): Promise<void> }>
  readonly settings: SmallModelPoolSettings
  /** Of this machine, now. */
  readonly freeBytes: () => number
  /** Gets what the pool takes and decides. */
  readonly recording?: Recording | undefined
  readonly clock: Clock
  readonly logger: Logger
}

export interface PooledModel {
  readonly source: ModelSource
  readonly model: LocalModel
  /** Time that opening it took; 0 where it was open. */
  readonly loadMs: number
  /** To be called once; more calls change nothing. */
  release(): void
}

interface OpenedModel {
  readonly source: ModelSource
  readonly model: LocalModel & { close(): Promise<void> }
}

/** A request that waits for its model, or for the closing of one. */
interface WaitingRequest {
  readonly name: string
  readonly resolve: (lent: PooledModel | undefined) => void
  readonly reject: (error: unknown) => void
}

/** The small models of a device as `SmallModelPool` decides which are open. */
export class ModelPool {
  readonly #options: ModelPoolOptions
  readonly #pool: SmallModelPool
  /** The same, recorded where that is wanted. */
  readonly #decider: Machine<SmallModelPoolInput, SmallModelPoolAction>
  readonly #kept = new Map<string, KeptOfModel>()
  /** Models that are open or being closed, by the hash of the manifest. */
  readonly #opened = new Map<string, OpenedModel>()
  readonly #requests = new Map<number, WaitingRequest>()
  #sources: readonly ModelSource[] = []
  #nextRequest = 0
  /** Why the last model could not be opened. */
  #failure: unknown
  #ended = () => {}

  readonly #handlers: HandlersOf<SmallModelPoolAction> = {
    open: ({ version }) => void this.#open(this.#sources.find(({ manifestSha256 }) => manifestSha256 === version)!),
    close: ({ version }) => void this.#close(version),
    lend: ({ request, version, loadMs }) => this.#requests.get(request)!.resolve(this.#lent(version, loadMs)),
    refuse: ({ request, why }) => this.#refuse(this.#requests.get(request)!, why),
    'idle closed': ({ request }) => this.#requests.get(request)!.resolve(undefined),
    ended: () => this.#ended(),
  }

  constructor(options: ModelPoolOptions) {
    this.#options = options
    this.#pool = new SmallModelPool(options.settings)
    this.#decider = options.recording?.of('small-model-pool', options.settings, this.#pool) ?? this.#pool
  }

  /** Models that may be borrowed, each name once. */
  get sources(): readonly ModelSource[] {
    return this.#sources
  }

  /** Name of the model that is open and was used last. */
  get current(): string | undefined {
    return this.#pool.current
  }

  isOpen(name: string): boolean {
    return this.#pool.isOpen(name)
  }

  get folders(): readonly string[] {
    return this.#pool.open.map((version) => this.#opened.get(version)!.source.folder)
  }

  /** What is known of a model that has been open. */
  keptOf({ manifestSha256 }: ModelSource): KeptOfModel | undefined {
    const kept = this.#kept.get(manifestSha256)
    return kept && (this.#opened.get(manifestSha256)?.model ?? kept)
  }

  /** Open models that are not among these are closed when they are returned. */
  setSources(sources: readonly ModelSource[]): void {
    this.#sources = sources
    const hashes = new Set(sources.map(({ manifestSha256 }) => manifestSha256))
    for (const hash of this.#kept.keys()) if (!hashes.has(hash)) this.#kept.delete(hash)
    const models = sources.map(({ name, manifestSha256: version, bytes }) => ({ name, version, bytes }))
    this.#feed({ kind: 'models', models })
  }

  /**
   * Waits for its turn and for memory, which borrowers hold, and opens the model if it is not open.
   * @throws BrimError MODEL_MISSING, OUT_OF_MEMORY, and as its opening; the signal's reason
   */
  async borrow(name: string, signal: AbortSignal): Promise<PooledModel> {
    return (await this.#request('borrow', name, signal))!
  }

  /** Closes the model if it is open and not borrowed. */
  async closeIdle(name: string): Promise<void> {
    await this.#request('close idle', name)
  }

  /** Waits for steps that run, and closes all models, also borrowed ones. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#ended = resolve
      this.#feed({ kind: 'end' })
    })
  }

  #request(kind: 'borrow' | 'close idle', name: string, signal?: AbortSignal): Promise<PooledModel | undefined> {
    this.#nextRequest += 1
    const request = this.#nextRequest
    return new Promise<PooledModel | undefined>((resolve, reject) => {
      signal?.throwIfAborted()
      const onAbort = () => {
        this.#requests.delete(request)
        this.#feed({ kind: 'give up', request })
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      const ending =
        <Value>(end: (value: Value) => void) =>
        (value: Value) => {
          signal?.removeEventListener('abort', onAbort)
          this.#requests.delete(request)
          end(value)
        }
      this.#requests.set(request, { name, resolve: ending(resolve), reject: ending(reject) })
      this.#feed({ kind, request, name })
    })
  }

  #feed(event: SmallModelPoolEvent): void {
    const input = { ...event, freeBytes: this.#options.freeBytes() }
    for (const action of this.#decider.handle(input, this.#options.clock.nowMs())) handleKind(this.#handlers, action)
  }

  #refuse({ name, reject }: WaitingRequest, why: OfKind<SmallModelPoolAction, 'refuse'>['why']): void {
    reject(this.#refusal(name, why))
  }

  #lent(version: string, loadMs: number): PooledModel {
    const { source, model } = this.#opened.get(version)!
    let isReturned = false
    const release = () => {
      if (isReturned) return
      isReturned = true
      this.#feed({ kind: 'return', version })
    }
    return { source, model, loadMs, release }
  }

  async #open(source: ModelSource): Promise<void> {
    const version = source.manifestSha256
    try {
      const model = await this.#options.open(source.folder, this.#kept.get(version))
      this.#opened.set(version, { source, model })
      this.#kept.set(version, { text: model.text, computing: model.computing, speed: model.speed })
    } catch (error) {
      this.#failure = error
      return this.#feed({ kind: 'broken', version })
    }
    this.#feed({ kind: 'opened', version })
  }

  async #close(version: string): Promise<void> {
    try {
      await this.#opened.get(version)!.model.close()
    } catch (err) {
      this.#options.logger.warn({ err, version }, 'small model not closed')
    }
    this.#opened.delete(version)
    this.#feed({ kind: 'closed', version })
  }

  #refusal(name: string, why: OfKind<SmallModelPoolAction, 'refuse'>['why']): unknown {
    switch (why) {
      case 'broken':
        return this.#failure
      case 'ended':
        return new BrimError('CANCELED', 'the agent is shutting down')
      case 'unknown':
        return new BrimError('MODEL_MISSING', `the small model ${name} is not installed on this device`, {
          hint: 'brim job submit bundle.install --model <bundle> --device <id>',
        })
      case 'too large': {
        const { bytes } = this.#sources.find((source) => source.name === name)!
        const { limitBytes } = this.#options.settings
        return new BrimError('OUT_OF_MEMORY', `${name} needs ${bytes} bytes; small models may use ${limitBytes}`, {
          hint: 'raise the limit (brim agent run --limit slmBytes=<number>), or use a smaller model',
        })
      }
    }
  }
}
