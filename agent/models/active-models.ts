import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { readManifest } from '../../core/model/bundle.ts'
import type { VerifiedBundles } from '../../core/model/verified-bundles.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { BundleVersion } from '../bundles/bundle-folder.ts'
import type { DeviceModel } from '../hat/open-device-model.ts'
import type { LocalModel } from '../slm/local-model.ts'
import type { BundleChoices, ModelRole } from './bundle-choices.ts'
import { ModelSlot } from './model-slot.ts'

export interface ActiveModelsOptions {
  /** Bundles that the agent was started with: as given, and their folders. */
  readonly configured: Readonly<Record<ModelRole, { readonly name: string; readonly folder: string } | undefined>>
  readonly choices: BundleChoices
  /** Folder of an installed model. */
  readonly folderOf: (modelId: string) => string
  readonly verified: VerifiedBundles
  /** Of the split model's parts on this device. */
  readonly speed: DeviceSpeed
  readonly threads: number
  readonly library?: string | undefined
  readonly smoothing: number
  /** Whether to open the Medusa heads. */
  readonly medusa: boolean
  readonly logger: Logger
}

/** The models that answer on this device. The inference library is loaded with the first. */
export class ActiveModels {
  readonly llm: ModelSlot<DeviceModel>
  readonly slm: ModelSlot<LocalModel & { close(): Promise<void> }>
  readonly #options: ActiveModelsOptions
  readonly #onChange = new Set<() => void>()

  constructor(options: ActiveModelsOptions) {
    this.#options = options
    this.llm = new ModelSlot(async (bundle) => {
      const { openDeviceModel } = await import('../hat/open-device-model.ts')
      return openDeviceModel({ ...options, bundle })
    })
    this.slm = new ModelSlot(async (bundle) => {
      const { openLocalModel } = await import('../slm/local-model.ts')
      return openLocalModel({ ...options, bundle })
    })
  }

  get speed(): DeviceSpeed {
    return this.#options.speed
  }

  /** Of the split model. */
  get modelId(): string | undefined {
    return this.llm.current?.model.manifest.modelId
  }

  /** Folders that must not be deleted. */
  get folders(): readonly string[] {
    const { llm, slm } = this.#options.configured
    return [llm, slm, this.llm.current, this.slm.current].flatMap((bundle) => bundle?.folder ?? [])
  }

  /** Why the device cannot answer now; undefined: it has a model. */
  get problem(): BrimError | undefined {
    return this.llm.current ? undefined : (this.llm.failure ?? missing())
  }

  /** @param listener called after a model was replaced */
  onChange(listener: () => void): void {
    this.#onChange.add(listener)
  }

  /**
   * Opens the bundles that were activated or configured. One that a job has activated and that cannot be opened is left out, so
   * that another job can replace it.
   * @throws BrimError as the opening of a configured bundle
   */
  async openAll(): Promise<void> {
    const { configured, choices, folderOf, logger } = this.#options
    for (const role of ['llm', 'slm'] as const) {
      const chosen = choices.atStart(role, configured[role]?.name)
      if (chosen === undefined) {
        if (configured[role]) await this[role].open(configured[role].folder)
        continue
      }
      await this[role].open(folderOf(chosen)).catch((err: unknown) => {
        if (!(err instanceof BrimError)) throw err
        logger.error({ err, role, modelId: chosen }, 'activated bundle not opened')
      })
    }
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
    const { current } = this[role]
    if (current?.folder !== folder || current.manifestSha256 !== manifestSha256) {
      try {
        await this[role].replace(folder, signal)
        if (role === 'llm') this.speed.reset()
      } finally {
        for (const listener of this.#onChange) listener()
      }
      logger.info({ role, modelId, model: card.name }, 'bundle activated')
    }
    choices.choose(role, modelId, configured[role]?.name)
  }

  async close(): Promise<void> {
    await this.slm.close()
    await this.llm.close()
  }
}

const missing = () =>
  new BrimError('MODEL_MISSING', 'no model is installed on this device', {
    hint: 'brim job submit bundle.install --model <bundle> --activate --device <id>, or brim agent run --bundle <folder>',
    retryAfterMs: 60_000,
  })
