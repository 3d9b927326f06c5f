import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { manifestHash } from '../slm/model-source.ts'
import { AnswerGate, replaced } from './answer-gate.ts'

export interface OpenSlotModel {
  close(): Promise<void>
}

export interface ActiveModel<Model> {
  readonly folder: string
  /** sha256 of its manifest, which identifies the version. */
  readonly manifestSha256: string
  readonly model: Model
  readonly gate: AnswerGate
}

export interface Replacement<Model> {
  /** Folder of the other bundle. */
  readonly folder: string
  /** Whether there is memory for both. */
  readonly isBeside: boolean
  /** Throws if the model must not answer. @returns the model as it is then: its bundle may have been moved */
  readonly admit: (opened: ActiveModel<Model>) => Promise<ActiveModel<Model>>
}

/** The place of one model, empty or not, which a job may fill or replace while the agent runs. */
export class ModelSlot<Model extends OpenSlotModel> {
  readonly #open: (folder: string) => Promise<Model>
  readonly #logger: Logger
  #current: ActiveModel<Model> | undefined
  #failure: BrimError | undefined
  /** Replaced models with answers in progress. */
  readonly #retired = new Set<ActiveModel<Model>>()

  constructor(open: (folder: string) => Promise<Model>, logger: Logger) {
    this.#open = open
    this.#logger = logger
  }

  get current(): ActiveModel<Model> | undefined {
    return this.#current
  }

  /** Why there is no model although there should be one. */
  get failure(): BrimError | undefined {
    return this.#failure
  }

  /** Folders of open bundles. */
  get folders(): readonly string[] {
    return [...(this.#current ? [this.#current] : []), ...this.#retired].map(({ folder }) => folder)
  }

  /** @throws BrimError as the model's opening, and remembers it as `failure` */
  async open(folder: string): Promise<void> {
    try {
      this.#current = await this.#opened(folder)
      this.#failure = undefined
    } catch (error) {
      if (error instanceof BrimError) this.#failure = error
      throw error
    }
  }

  /**
   * Opens another model, and lets it answer once it is admitted. Beside the one before: that one answers until then, and is
   * closed after its last answer. Otherwise it is closed first, once no answer uses it, and opened again if the other one fails.
   * @throws BrimError as the model's opening and `admit`; the signal's reason when aborted during the wait
   */
  async replace({ folder, isBeside, admit }: Replacement<Model>, signal: AbortSignal): Promise<void> {
    const before = this.#current
    if (!isBeside) {
      await before?.gate.close(signal)
      this.#current = undefined
      this.#failure = replaced()
      await before?.model.close()
    }
    let opened: ActiveModel<Model> | undefined
    try {
      opened = await this.#opened(folder)
      this.#current = await admit(opened)
      this.#failure = undefined
    } catch (error) {
      // A probe that was given up may still be running.
      if (opened) this.#retire(opened)
      // If this fails too, its reason remains as `failure`.
      if (before && !isBeside) await this.open(before.folder).catch(() => {})
      throw error
    }
    if (before && isBeside) this.#retire(before)
  }

  async close(): Promise<void> {
    const open = [...(this.#current ? [this.#current] : []), ...this.#retired]
    this.#current = undefined
    this.#retired.clear()
    await Promise.all(open.map(({ model }) => model.close()))
  }

  async #opened(folder: string): Promise<ActiveModel<Model>> {
    const model = await this.#open(folder)
    return { folder, manifestSha256: await manifestHash(folder), model, gate: new AnswerGate() }
  }

  /** Closes a model after its last answer. */
  #retire(retired: ActiveModel<Model>): void {
    this.#retired.add(retired)
    const { gate, model, folder } = retired
    gate
      .close(new AbortController().signal)
      .then(() => (this.#retired.delete(retired) ? model.close() : undefined))
      .catch((err: unknown) => this.#logger.error({ err, folder }, 'replaced model not closed'))
  }
}
