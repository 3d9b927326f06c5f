import { freemem } from 'node:os'
import type { TextModel } from '../../core/answer/text-model.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Progress } from '../../core/base/progress.ts'
import { readManifest } from '../../core/model/bundle.ts'
import type { VerifiedBundles } from '../../core/model/verified-bundles.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { BundleVersion, InstalledBundle } from '../bundles/bundle-folder.ts'
import type { DeviceModel } from '../hat/open-device-model.ts'
import type { OpenSmall } from '../slm/local-model.ts'
import { ModelPool } from '../slm/model-pool.ts'
import { type ModelSource, readModelSource } from '../slm/model-source.ts'
import { type BundleChoices, modelRoles } from './bundle-choices.ts'
import { ModelSlot } from './model-slot.ts'

interface ConfiguredBundle {
  /** As given. */
  readonly name: string
  readonly folder: string
}

export interface ActiveModelsOptions {
  /** Bundles that the agent was started with. The first small model is the device's own. */
  readonly configured: { readonly llm: ConfiguredBundle | undefined; readonly slms: readonly ConfiguredBundle[] }
  readonly choices: BundleChoices
  /** Folder of an installed model. */
  readonly folderOf: (modelId: string) => string
  readonly installed: () => Promise<readonly InstalledBundle[]>
  readonly verified: VerifiedBundles
  /** Notices a run of a model that does not return. */
  readonly progress: Progress
  /** Of the split model's parts on this device. */
  readonly speed: DeviceSpeed
  readonly threads: number
  readonly library?: string | undefined
  readonly smoothing: number
  /** Whether to open the Medusa heads. */
  readonly medusa: boolean
  readonly limits: { readonly slmBytes: number; readonly slmReserveBytes: number }
  /** Opens a small model; absent: as it is. */
  readonly openSmall?: OpenSmall | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** The small model that answers in place of the split one, open or not. */
export interface OwnSmallModel {
  readonly source: ModelSource
  readonly text: TextModel
  /** As measured from its answers. */
  readonly speed: DeviceSpeed
}

/** The models that answer on this device. The inference library is loaded with the first. */
export class ActiveModels {
  readonly llm: ModelSlot<DeviceModel>
  readonly smallModels: ModelPool
  readonly #options: ActiveModelsOptions
  readonly #onChange = new Set<() => void>()
  #own: ModelSource | undefined

  constructor(options: ActiveModelsOptions) {
    this.#options = options
    this.llm = new ModelSlot(async (bundle) => {
      const { openDeviceModel } = await import('../hat/open-device-model.ts')
      return openDeviceModel({ ...options, bundle })
    })
    const { slmBytes, slmReserveBytes } = options.limits
    this.smallModels = new ModelPool({
      async open(bundle, kept) {
        const open = options.openSmall ?? (await import('../slm/local-model.ts')).openLocalModel
        return open({ ...options, bundle, kept })
      },
      memory: () => ({ limitBytes: slmBytes, reserveBytes: slmReserveBytes, freeBytes: freemem() }),
      clock: options.clock,
    })
  }

  get speed(): DeviceSpeed {
    return this.#options.speed
  }

  /** Of the split model. */
  get modelId(): string | undefined {
    return this.llm.current?.model.manifest.modelId
  }

  /** Undefined: there is none. */
  get slm(): OwnSmallModel | undefined {
    const kept = this.#own && this.smallModels.keptOf(this.#own)
    return kept && { source: this.#own!, ...kept }
  }

  /** Folders that must not be deleted. */
  get folders(): readonly string[] {
    const { llm, slms } = this.#options.configured
    const bundles = [llm, ...slms, this.llm.current, this.#own].flatMap((bundle) => bundle?.folder ?? [])
    return [...bundles, ...this.smallModels.folders]
  }

  /** Why the device cannot answer now; undefined: it has a model. */
  get problem(): BrimError | undefined {
    return this.llm.current ? undefined : (this.llm.failure ?? missing())
  }

  /** @param listener called after a model was replaced, or small models were installed */
  onChange(listener: () => void): void {
    this.#onChange.add(listener)
  }

  /**
   * Opens the split model and the device's own small model, as activated or configured. One that a job has activated and that
   * cannot be opened is left out, so that another job can replace it.
   * @throws BrimError as the opening of a configured bundle
   */
  async openAll(): Promise<void> {
    const { configured, choices, folderOf, logger } = this.#options
    const open = {
      llm: (folder: string) => this.llm.open(folder),
      slm: (folder: string) => this.#setOwn(folder, new AbortController().signal),
    }
    for (const role of modelRoles) {
      const given = role === 'llm' ? configured.llm : configured.slms[0]
      const chosen = choices.atStart(role, given?.name)
      if (chosen === undefined) {
        if (given) await open[role](given.folder)
        continue
      }
      await open[role](folderOf(chosen)).catch((err: unknown) => {
        if (!(err instanceof BrimError)) throw err
        logger.error({ err, role, modelId: chosen }, 'activated bundle not opened')
      })
    }
    // Configured bundles must be readable, before one of them is needed.
    for (const { folder } of configured.slms) await readModelSource(folder)
  }

  /**
   * Replaces the model of the bundle's kind by an installed one, when no answer uses it, and stores the choice.
   * @throws BrimError as its opening; the model before it then stays
   */
  async activate({ modelId, manifestSha256 }: BundleVersion, signal: AbortSignal): Promise<void> {
    const { configured, choices, folderOf, logger } = this.#options
    const folder = folderOf(modelId)
    const { split, card } = await readManifest(folder)
    const role = split === null ? 'slm' : 'llm'
    const current = role === 'llm' ? this.llm.current : this.#own
    if (current?.folder !== folder || current.manifestSha256 !== manifestSha256) {
      try {
        if (role === 'slm') await this.#setOwn(folder, signal)
        else {
          await this.llm.replace(folder, signal)
          this.speed.reset()
        }
      } finally {
        this.#changed()
      }
      logger.info({ role, modelId, model: card.name }, 'bundle activated')
    }
    choices.choose(role, modelId, (role === 'llm' ? configured.llm : configured.slms[0])?.name)
  }

  /** Looks for the small models that are installed now. */
  async updateSmallModels(): Promise<void> {
    this.smallModels.setSources(await this.#sources(this.#own))
    this.#changed()
  }

  async close(): Promise<void> {
    await this.smallModels.close()
    await this.llm.close()
  }

  /** Opens the device's own small model. @throws BrimError as its opening; the one before it then stays */
  async #setOwn(folder: string, signal: AbortSignal): Promise<void> {
    const source = await readModelSource(folder)
    this.smallModels.setSources(await this.#sources(source))
    try {
      const { release } = await this.smallModels.borrow(source.name, signal)
      release()
      this.#own = source
    } catch (error) {
      this.smallModels.setSources(await this.#sources(this.#own))
      throw error
    }
  }

  /** All small models of this device. Of several with one name the own or configured one counts, else the newest. */
  async #sources(own: ModelSource | undefined): Promise<ModelSource[]> {
    const { configured, installed } = this.#options
    const folders = [...configured.slms, ...(await installed()).filter(({ manifest }) => manifest.split === null)]
    const sources = new Map<string, ModelSource>(own ? [[own.name, own]] : [])
    for (const { folder } of folders) {
      // A bundle that was deleted or damaged since then.
      const source = await readModelSource(folder).catch(() => undefined)
      if (source && !sources.has(source.name)) sources.set(source.name, source)
    }
    return [...sources.values()].sort((a, b) => a.bytes - b.bytes)
  }

  #changed(): void {
    for (const listener of this.#onChange) listener()
  }
}

const missing = () =>
  new BrimError('MODEL_MISSING', 'no model is installed on this device', {
    hint: 'brim job submit bundle.install --model <bundle> --activate --device <id>, or brim agent run --bundle <folder>',
    retryAfterMs: 60_000,
  })
