import { BrimError } from '../../core/base/errors.ts'
import { manifestHash } from '../slm/model-source.ts'
import { AnswerGate, replaced } from './answer-gate.ts'

export interface OpenModel {
  close(): Promise<void>
}

/** One open bundle. */
export interface ActiveModel<Model> {
  readonly folder: string
  /** sha256 of its manifest, which identifies the version. */
  readonly manifestSha256: string
  readonly model: Model
  readonly gate: AnswerGate
}

/** The place of one model, empty or not, which a job may fill or replace while the agent runs. */
export class ModelSlot<Model extends OpenModel> {
  readonly #open: (folder: string) => Promise<Model>
  #current: ActiveModel<Model> | undefined
  #failure: BrimError | undefined

  constructor(open: (folder: string) => Promise<Model>) {
    this.#open = open
  }

  get current(): ActiveModel<Model> | undefined {
    return this.#current
  }

  /** Why there is no model although there should be one. */
  get failure(): BrimError | undefined {
    return this.#failure
  }

  /** @throws BrimError as the model's opening, and remembers it as `failure` */
  async open(folder: string): Promise<void> {
    try {
      const model = await this.#open(folder)
      this.#current = { folder, manifestSha256: await manifestHash(folder), model, gate: new AnswerGate() }
      this.#failure = undefined
    } catch (error) {
      if (error instanceof BrimError) this.#failure = error
      throw error
    }
  }

  /**
   * Waits until no answer uses the model, closes it, and opens another: there may be no memory for both. If that fails, opens
   * the first again.
   * @throws BrimError as the model's opening; the signal's reason when aborted during the wait
   */
  async replace(folder: string, signal: AbortSignal): Promise<void> {
    const before = this.#current
    await before?.gate.close(signal)
    this.#current = undefined
    this.#failure = replaced()
    await before?.model.close()
    try {
      await this.open(folder)
    } catch (error) {
      // If this fails too, its reason remains as `failure`.
      if (before) await this.open(before.folder).catch(() => {})
      throw error
    }
  }

  async close(): Promise<void> {
    const before = this.#current
    this.#current = undefined
    await before?.model.close()
  }
}
