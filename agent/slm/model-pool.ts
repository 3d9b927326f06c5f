import type { TextModel } from '../../core/answer/text-model.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { orAborted } from '../../core/base/or-aborted.ts'
import { SerialQueue } from '../../core/engine/serial-queue.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { type ModelMemory, planOpening } from '../../core/policy/pice/open-models.ts'
import type { LocalModel } from './local-model.ts'
import type { ModelSource } from './model-source.ts'

/** What outlives the closing of a model: its tokenizer, and what was measured. */
export interface KeptOfModel {
  readonly text: TextModel
  readonly speed: DeviceSpeed
}

export interface ModelPoolOptions {
  readonly open: (folder: string, kept: KeptOfModel | undefined) => Promise<LocalModel & { close(): Promise<void> }>
  readonly memory: () => ModelMemory
  readonly clock: Clock
}

export interface PooledModel {
  readonly source: ModelSource
  readonly model: LocalModel
  /** Time that opening it took; 0 where it was open. */
  readonly loadMs: number
  /** To be called once; more calls change nothing. */
  release(): void
}

interface Entry {
  readonly source: ModelSource
  readonly model: LocalModel & { close(): Promise<void> }
  borrowers: number
  usedMs: number
}

/**
 * The small models of a device, of which as many are open as memory allows, at least one. Models are borrowed in the order of
 * the requests, so that a request for a closed model is not delayed for ever by those for the open one.
 */
export class ModelPool {
  readonly #options: ModelPoolOptions
  readonly #requests = new SerialQueue()
  readonly #kept = new Map<string, KeptOfModel>()
  /** By the hash of the manifest. */
  readonly #entries = new Map<string, Entry>()
  readonly #closing = new AbortController()
  #sources: readonly ModelSource[] = []
  #changes = 0
  #wake = () => {}

  constructor(options: ModelPoolOptions) {
    this.#options = options
  }

  /** Models that may be borrowed, each name once. */
  get sources(): readonly ModelSource[] {
    return this.#sources
  }

  /** Name of the model that is open and was used last. */
  get current(): string | undefined {
    return [...this.#entries.values()].sort((a, b) => b.usedMs - a.usedMs)[0]?.source.name
  }

  isOpen(name: string): boolean {
    return [...this.#entries.values()].some(({ source }) => source.name === name)
  }

  /** Folders of open models. */
  get folders(): readonly string[] {
    return [...this.#entries.values()].map(({ source }) => source.folder)
  }

  /** What is known of a model that has been open. */
  keptOf({ manifestSha256 }: ModelSource): KeptOfModel | undefined {
    return this.#kept.get(manifestSha256)
  }

  /** Open models that are not among these are closed when they are returned. */
  setSources(sources: readonly ModelSource[]): void {
    this.#sources = sources
    const hashes = new Set(sources.map(({ manifestSha256 }) => manifestSha256))
    for (const hash of this.#kept.keys()) if (!hashes.has(hash)) this.#kept.delete(hash)
    this.#changed()
    void this.#requests.run(() => this.#closeUnknown())
  }

  /**
   * Waits for its turn and for memory, which borrowers hold, and opens the model if it is not open.
   * @throws BrimError MODEL_MISSING, OUT_OF_MEMORY, and as its opening; the signal's reason
   */
  borrow(name: string, signal: AbortSignal): Promise<PooledModel> {
    const lent = this.#requests.run(() => this.#lend(name, signal))
    return orAborted(lent, signal, async (late) => late.release())
  }

  /** Closes the model if it is open and not borrowed. */
  async closeIdle(name: string): Promise<void> {
    await this.#requests.run(async () => {
      for (const entry of [...this.#entries.values()])
        if (entry.source.name === name && entry.borrowers === 0) await this.#close(entry)
    })
  }

  /** Waits for steps that run, and closes all models, also borrowed ones. */
  async close(): Promise<void> {
    this.#closing.abort(new BrimError('CANCELED', 'the agent is shutting down'))
    this.#changed()
    await this.#requests.idle()
    for (const entry of [...this.#entries.values()]) await this.#close(entry)
  }

  async #lend(name: string, asked: AbortSignal): Promise<PooledModel> {
    const signal = AbortSignal.any([asked, this.#closing.signal])
    for (;;) {
      signal.throwIfAborted()
      const seen = this.#changes
      await this.#closeUnknown()
      const source = this.#sources.find((known) => known.name === name)
      if (!source)
        throw new BrimError('MODEL_MISSING', `the small model ${name} is not installed on this device`, {
          hint: 'brim job submit bundle.install --model <bundle> --device <id>',
        })
      const entry = this.#entries.get(source.manifestSha256)
      if (entry) return this.#lent(entry, 0)
      if (await this.#makeRoom(source)) {
        const startedMs = this.#options.clock.nowMs()
        return this.#lent(await this.#open(source), this.#options.clock.nowMs() - startedMs)
      }
      await this.#changedSince(seen, signal)
    }
  }

  /** @returns false: borrowed models are in the way. @throws BrimError OUT_OF_MEMORY */
  async #makeRoom({ name, bytes }: ModelSource): Promise<boolean> {
    const open = [...this.#entries.values()].map(({ source, borrowers, usedMs }) => {
      return { name: source.manifestSha256, bytes: source.bytes, isBorrowed: borrowers > 0, usedMs }
    })
    const memory = this.#options.memory()
    const plan = planOpening(bytes, open, memory)
    if (plan.kind === 'refuse')
      throw new BrimError('OUT_OF_MEMORY', `${name} needs ${bytes} bytes; small models may use ${memory.limitBytes}`, {
        hint: 'raise the limit (brim agent run --limit slmBytes=<number>), or use a smaller model',
      })
    if (plan.kind === 'wait') return false
    for (const hash of plan.close) await this.#close(this.#entries.get(hash)!)
    return true
  }

  async #open(source: ModelSource): Promise<Entry> {
    const model = await this.#options.open(source.folder, this.#kept.get(source.manifestSha256))
    const entry = { source, model, borrowers: 0, usedMs: this.#options.clock.nowMs() }
    this.#entries.set(source.manifestSha256, entry)
    this.#kept.set(source.manifestSha256, { text: model.text, speed: model.speed })
    return entry
  }

  #lent(entry: Entry, loadMs: number): PooledModel {
    entry.borrowers += 1
    entry.usedMs = this.#options.clock.nowMs()
    let isReturned = false
    const release = () => {
      if (isReturned) return
      isReturned = true
      entry.borrowers -= 1
      entry.usedMs = this.#options.clock.nowMs()
      this.#changed()
      if (!this.#isKnown(entry)) void this.#requests.run(() => this.#closeUnknown())
    }
    return { source: entry.source, model: entry.model, loadMs, release }
  }

  async #closeUnknown(): Promise<void> {
    for (const entry of [...this.#entries.values()]) if (entry.borrowers === 0 && !this.#isKnown(entry)) await this.#close(entry)
  }

  #isKnown({ source }: Entry): boolean {
    return this.#sources.some(({ manifestSha256 }) => manifestSha256 === source.manifestSha256)
  }

  async #close({ source, model }: Entry): Promise<void> {
    this.#entries.delete(source.manifestSha256)
    await model.close()
  }

  /** Resolves when a model has been returned, or the models have changed. */
  #changedSince(seen: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.#changes !== seen) return resolve()
      this.#wake = resolve
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }

  #changed(): void {
    this.#changes += 1
    this.#wake()
  }
}
