import { freemem } from 'node:os'
import type { TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { loadTextModel } from '../../core/answer/endpoint/text-model.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Progress } from '../../core/kit/base/progress.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { devicePartsOf } from '../../core/model/bundle/bundle-files.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import type { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import type { ProviderWish } from '../../core/model/engine/provider.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { DeviceComputing } from '../../core/wire/protocol/computing.ts'
import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'
import type { Activated, BundleActivation } from '../bundles/bundle-activation.ts'
import type { InstalledBundle } from '../bundles/bundle-folder.ts'
import type { AdapterName, DeviceModel } from '../hat/open-device-model.ts'
import { borrowingEndpoint } from '../slm/endpoint.ts'
import type { OpenSmall } from '../slm/local-model.ts'
import { type KeptOfModel, ModelPool } from '../slm/model-pool.ts'
import { type ModelSource, readModelSource, weightBytes } from '../slm/model-source.ts'
import { answerProblem } from '../trial/trial-question.ts'
import { type BundleChoices, modelRoles } from './bundle-choices.ts'
import type { BundleTrial } from './bundle-trial.ts'
import { type ActiveModel, ModelSlot } from './model-slot.ts'

interface ConfiguredBundle {
  /** As given. */
  readonly name: string
  readonly folder: string
}

export interface ActiveModelsOptions {
  /** Bundles that the agent was started with. The first small model is the device's own. */
  readonly configured: { readonly llm: ConfiguredBundle | undefined; readonly slms: readonly ConfiguredBundle[] }
  readonly choices: BundleChoices
  readonly folderOf: (modelId: string) => string
  readonly installed: () => Promise<readonly InstalledBundle[]>
  readonly verified: VerifiedBundles
  readonly trial: BundleTrial
  /** Notices a run of a model that does not return. */
  readonly progress: Progress
  /** Of the split model's parts on this device. */
  readonly speed: DeviceSpeed
  readonly threads: number
  readonly provider?: ProviderWish | undefined
  /** What computes small models. Default: as `provider`. */
  readonly slmProvider?: string | undefined
  readonly library?: string | undefined
  /** Whether to open the Medusa heads. */
  readonly medusa: boolean
  /** Default: `adapter`. */
  readonly adapter?: AdapterName | undefined
  readonly limits: { readonly slmBytes: number; readonly slmReserveBytes: number; readonly healthProbeS: number }
  readonly openSmall?: OpenSmall | undefined
  /** Gets what the pool of small models takes and decides. */
  readonly recording?: Recording | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** The small model that answers in place of the split one, open or not. */
export interface OwnSmallModel extends KeptOfModel {
  readonly source: ModelSource
}

type SplitEndpoint = (opened: ActiveModel<DeviceModel>) => TokenEndpoint

/** The models that answer on this device. The inference library is loaded with the first. */
export class ActiveModels {
  readonly llm: ModelSlot<DeviceModel>
  readonly smallModels: ModelPool
  readonly #options: ActiveModelsOptions
  readonly #onChange = new Set<() => void>()
  #own: ModelSource | undefined
  #unopened: BrimError | undefined
  /** A small model that is being activated, under a name that no request knows. */
  #onTrial: ModelSource | undefined

  constructor(options: ActiveModelsOptions) {
    this.#options = options
    this.llm = new ModelSlot(async (bundle) => {
      const { openDeviceModel } = await import('../hat/open-device-model.ts')
      return openDeviceModel({ ...options, bundle })
    }, options.logger)
    const { slmBytes, slmReserveBytes } = options.limits
    const { provider, slmProvider } = options
    const smallProvider = slmProvider === undefined ? provider : { ...provider, name: slmProvider, compute: undefined }
    this.smallModels = new ModelPool({
      async open(bundle, kept) {
        const open = options.openSmall ?? (await import('../slm/local-model.ts')).openLocalModel
        return open({ ...options, provider: smallProvider, bundle, kept })
      },
      settings: { limitBytes: slmBytes, reserveBytes: slmReserveBytes },
      freeBytes: freemem,
      recording: options.recording,
      clock: options.clock,
      logger: options.logger,
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

  /** Why this start has left out an activated model, where another bundle would not help: its provider, or too little memory. */
  get unopened(): BrimError | undefined {
    return this.#unopened
  }

  /** What computes the models that the device answers with; undefined: it has none. */
  get computing(): DeviceComputing | undefined {
    const [llm, slm] = [this.llm.current?.model.computing, this.slm?.computing]
    return llm || slm ? { llm, slm } : undefined
  }

  /** Folders that must not be deleted. */
  get folders(): readonly string[] {
    const { llm, slms } = this.#options.configured
    const bundles = [llm, ...slms, this.#own].flatMap((bundle) => bundle?.folder ?? [])
    return [...bundles, ...this.llm.folders, ...this.smallModels.folders]
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
        if (!err.code.startsWith('BUNDLE_')) this.#unopened = err
        logger.error({ err, role, modelId: chosen }, 'activated bundle not opened')
      })
    }
    // Configured bundles must be readable, before one of them is needed.
    for (const { folder } of configured.slms) await readModelSource(folder)
  }

  /**
   * Makes the device answer with a bundle, if it opens and answers the probe, and stores the choice. Where it is not healthy, the
   * one before answers on.
   * @param splitEndpoint what answers with a split model that is not the current one
   * @throws BrimError HEALTH_CHECK_FAILED; the signal's reason
   */
  async activate(activation: BundleActivation, splitEndpoint: SplitEndpoint, signal: AbortSignal): Promise<Activated> {
    const { configured, choices, trial, logger } = this.#options
    const { job, modelId, folder, probe } = activation
    const { split, card } = await readManifest(folder)
    const role = split === null ? 'slm' : 'llm'
    trial.begin(job, activation, probe)
    const commit = async () => {
      const placed = await activation.commit()
      choices.choose(role, modelId, (role === 'llm' ? configured.llm : configured.slms[0])?.name)
      return placed
    }
    const placing = { ...activation, commit }
    try {
      const activated =
        role === 'slm' ? await this.#activateSmall(placing, signal) : await this.#activateLarge(placing, splitEndpoint, signal)
      trial.keep()
      logger.info({ role, modelId, model: card.name, activated, computing: this.computing?.[role] }, 'bundle activated')
      return activated
    } catch (error) {
      if (signal.aborted) trial.cancel()
      signal.throwIfAborted()
      const problem = error instanceof Error ? error.message : String(error)
      logger.error({ err: error, role, modelId }, 'bundle not activated: the device answers with the one before')
      throw trial.fail(problem, error)
    } finally {
      this.#changed()
    }
  }

  async #activateLarge(activation: BundleActivation, splitEndpoint: SplitEndpoint, signal: AbortSignal): Promise<Activated> {
    const { folder, manifestSha256, commit, probe } = activation
    const { current } = this.llm
    const admit = async (opened: ActiveModel<DeviceModel>) => {
      await this.#requireAnswer(splitEndpoint(opened), probe, signal)
      const placed = await commit()
      // A thread reads the tokenizer again for long prompts, from its place.
      const text = await loadTextModel(placed, opened.model.manifest)
      return { ...opened, folder: placed, model: { ...opened.model, text } }
    }
    if (current?.folder === folder && current.manifestSha256 === manifestSha256) {
      await admit(current)
      return 'unchanged'
    }
    const bytes = weightBytes(...deviceWeights(await readManifest(folder)))
    const isBeside = current !== undefined && freemem() - bytes >= this.#options.limits.slmReserveBytes
    await this.llm.replace({ folder, isBeside, admit }, signal)
    this.speed.reset()
    return isBeside || current === undefined ? 'beside' : 'afterwards'
  }

  async #activateSmall(activation: BundleActivation, signal: AbortSignal): Promise<Activated> {
    const { folder, manifestSha256, commit, probe } = activation
    const before = this.#own
    const source = await readModelSource(folder)
    if (before?.folder === folder && before.manifestSha256 === manifestSha256) {
      await this.#requireSmall(before.name, probe, signal)
      await commit()
      return 'unchanged'
    }
    const onTrial = { ...source, name: `${source.name} on trial` }
    try {
      this.#onTrial = onTrial
      this.smallModels.setSources(await this.#sources(before))
      await this.#requireSmall(onTrial.name, probe, signal)
      const isBeside = before === undefined || this.smallModels.isOpen(before.name)
      const own = await readModelSource(await commit())
      // Opened again from its place: a thread reads its tokenizer for long prompts.
      await this.smallModels.closeIdle(onTrial.name)
      this.#onTrial = undefined
      this.smallModels.setSources(await this.#sources(before))
      await this.#setOwn(own.folder, signal)
      return isBeside ? 'beside' : 'afterwards'
    } catch (error) {
      this.#onTrial = undefined
      this.smallModels.setSources(await this.#sources(before))
      throw error
    }
  }

  /** Opens a small model and asks it the probe. */
  async #requireSmall(name: string, probe: TrialQuestion | undefined, signal: AbortSignal): Promise<void> {
    const borrow = (until: AbortSignal) => this.smallModels.borrow(name, until)
    const { model, release } = await borrow(signal)
    release()
    await this.#requireAnswer(borrowingEndpoint(model.text, borrow, this.#options.clock), probe, signal)
  }

  /** @throws BrimError HEALTH_CHECK_FAILED */
  async #requireAnswer(endpoint: TokenEndpoint, probe: TrialQuestion | undefined, signal: AbortSignal): Promise<void> {
    const { limits, clock } = this.#options
    const problem = probe && (await answerProblem(endpoint, probe, limits.healthProbeS, clock, signal))
    if (problem !== undefined) throw new BrimError('HEALTH_CHECK_FAILED', problem)
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
    if (this.#onTrial) sources.set(this.#onTrial.name, this.#onTrial)
    return [...sources.values()].sort((a, b) => a.bytes - b.bytes)
  }

  #changed(): void {
    for (const listener of this.#onChange) listener()
  }
}

/** Manifest and parts of what a device opens of a split model. */
const deviceWeights = (manifest: Manifest) => [manifest, devicePartsOf(manifest)] as const

const missing = () =>
  new BrimError('MODEL_MISSING', 'no model is installed on this device', {
    hint: 'brim job submit bundle.install --model <bundle> --activate --device <id>, or brim agent run --bundle <folder>',
    retryAfterMs: 60_000,
  })
