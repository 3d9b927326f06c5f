import { loadTextModel, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Progress } from '../../core/kit/base/progress.ts'
import { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import type { Chain } from '../../core/model/engine/contract.ts'
import { openVerifiedBundle } from '../../core/model/engine/open-bundle.ts'
import type { ProviderWish } from '../../core/model/engine/provider.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'

/** A small whole model on the device: it needs no bridge. */
export interface LocalModel {
  readonly modelId: string
  readonly computing: ShownComputing
  readonly text: TextModel
  readonly chain: Chain
  /** As measured from its answers. */
  readonly speed: DeviceSpeed
}

export interface LocalModelOptions {
  /** Folder of a bundle that was built without a split. */
  readonly bundle: string
  readonly threads: number
  readonly library?: string | undefined
  /** What is to compute. Default: the CPU. */
  readonly provider?: ProviderWish | undefined
  /** Weight of the past in the measured speed, 0..1. */
  /** What this machine has verified before. Default: nothing. */
  readonly verified?: VerifiedBundles | undefined
  /** Notices a run that does not return. */
  readonly progress?: Progress | undefined
  readonly logger?: Logger | undefined
  /** Of an earlier opening of the same bundle. */
  readonly kept?: Pick<LocalModel, 'text' | 'speed'> | undefined
}

export type OpenSmall = (options: LocalModelOptions) => Promise<LocalModel & { close(): Promise<void> }>

/** @throws BrimError BUNDLE_INVALID (also for a split bundle), BUNDLE_CORRUPT, TOKENIZER_INVALID, CHAT_TEMPLATE_INVALID, RUNTIME_*, OUT_OF_MEMORY */
export async function openLocalModel({
  bundle,
  threads,
  library,
  provider,
  verified = new VerifiedBundles(),
  progress,
  logger,
  kept,
}: LocalModelOptions): Promise<LocalModel & { close(): Promise<void> }> {
  const model = await openVerifiedBundle(bundle, { library, provider, parts: ['whole'], threads, verified, progress, logger })
  try {
    return {
      modelId: model.manifest.modelId,
      get computing() {
        return model.computing
      },
      text: kept?.text ?? (await loadTextModel(bundle, model.manifest)),
      chain: model.chain({ cuts: 'full' }),
      speed: kept?.speed ?? new DeviceSpeed(),
      close: () => model.release(),
    }
  } catch (error) {
    await model.release()
    throw error
  }
}
