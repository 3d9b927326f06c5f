import { loadTextModel, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Progress } from '../../core/kit/base/progress.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { draftOutput, type Manifest, partsOfDrafter } from '../../core/model/bundle/manifest.ts'
import { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import type { MedusaHeads, Part } from '../../core/model/engine/contract.ts'
import { openVerifiedBundle } from '../../core/model/engine/open-bundle.ts'
import type { ProviderWish } from '../../core/model/engine/provider.ts'
import { type SharedHead, shareHead } from '../../core/model/engine/shared-head.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'

/** The parts of a split model that run on the device. Drafters are undefined where the bundle has none. */
export interface DeviceModel {
  readonly manifest: Manifest
  readonly computing: ShownComputing
  readonly input: Part
  readonly head: SharedHead
  readonly adapter: Part | undefined
  /** What reads the adapter's states. */
  readonly adapterHead: SharedHead
  readonly medusa: MedusaHeads | undefined
  readonly text: TextModel
  close(): Promise<void>
}

/** The paper's reads no deep states. */
export type AdapterName = 'adapter' | 'adapter-paper'

export interface DeviceModelOptions {
  readonly bundle: string
  readonly threads: number
  readonly library?: string | undefined
  /** What is to compute. Default: the CPU. */
  readonly provider?: ProviderWish | undefined
  /** Whether to open the Medusa heads, which are far larger than the adapter. */
  readonly medusa: boolean
  /** Default: `adapter`. */
  readonly adapter?: AdapterName | undefined
  /** What this machine has verified before. Default: nothing. */
  readonly verified?: VerifiedBundles | undefined
  /** Notices a run that does not return. */
  readonly progress?: Progress | undefined
  readonly logger?: Logger | undefined
}

/** @throws BrimError BUNDLE_INVALID, BUNDLE_CORRUPT, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, RUNTIME_*, OUT_OF_MEMORY */
export async function openDeviceModel({
  bundle,
  threads,
  library,
  provider,
  medusa,
  adapter = 'adapter',
  verified,
  progress,
  logger,
}: DeviceModelOptions): Promise<DeviceModel> {
  const manifest = await readManifest(bundle)
  const wanted = medusa ? ([adapter, 'medusa'] as const) : ([adapter] as const)
  const drafters = wanted.flatMap((name) => partsOfDrafter(manifest, name))
  const model = await openVerifiedBundle(bundle, {
    library,
    provider,
    parts: ['input', 'output', ...drafters],
    threads,
    branching: true,
    verified: verified ?? new VerifiedBundles(),
    progress,
    logger,
  })
  try {
    const { vocab } = manifest.dims
    const head = shareHead(model.head(), vocab)
    return {
      manifest,
      get computing() {
        return model.computing
      },
      input: model.part('input'),
      head,
      adapterHead: drafters.includes(draftOutput) ? shareHead(model.head(draftOutput), vocab) : head,
      adapter: manifest.parts[adapter] && model.part(adapter),
      medusa: medusa && manifest.parts.medusa ? model.medusa() : undefined,
      text: await loadTextModel(bundle, manifest),
      close: () => model.release(),
    }
  } catch (error) {
    await model.release()
    throw error
  }
}
