import type { Logger } from '../../core/kit/base/logger.ts'
import type { Progress } from '../../core/kit/base/progress.ts'
import { chainParts, readManifest } from '../../core/model/bundle/bundle.ts'
import { type Manifest, type PartName, type SlotCount, slotCounts, tokenizerFolder } from '../../core/model/bundle/manifest.ts'
import { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import { openVerifiedBundle } from '../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../core/model/engine/open-model.ts'
import type { ProviderWish } from '../../core/model/engine/provider.ts'
import { shareHead } from '../../core/model/engine/shared-head.ts'
import { tokenizerFile } from '../../core/model/text/tokenizer.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'
import { type ServedModel, splitModel, wholeModel } from './served-model.ts'

export interface ServedModelOptions {
  readonly bundle: string
  /**
   * Whether the bridge makes whole answers, which the middle alone cannot. It cannot either where a bundle has no tokenizer.
   * A bundle without a split serves nothing else.
   */
  readonly answers: boolean
  readonly threads: number
  /** Path of a libonnxruntime. Default: the library of the onnxruntime-node package. */
  readonly library?: string | undefined
  /** What is to compute. Default: the CPU. */
  readonly provider?: ProviderWish | undefined
  /** KV memory of all streams together. */
  readonly kvBudgetBytes: number
  /** Streams of a step whose graphs are compiled now; others are compiled in the first step that needs them. Default: all. */
  readonly compiled?: readonly SlotCount[]
  /** Folder that remembers what this machine has verified. */
  readonly stateDir: string
  /** Notices a step that does not return. */
  readonly progress?: Progress | undefined
  readonly logger?: Logger | undefined
}

export interface OpenedModel {
  /** Of the bundle. */
  readonly folder: string
  readonly served: ServedModel
  readonly manifest: Manifest
  readonly computing: ShownComputing
  /** Streams that one step can serve. */
  readonly slots: number
  /** Gives KV memory that no stream uses back to the system, until it is used again. */
  releaseFree(): void
  close(): Promise<void>
}

export type OpenModel = (options: ServedModelOptions) => Promise<OpenedModel>

/**
 * Opens the parts of a bundle that the bridge computes, and compiles their graphs.
 * @throws BrimError as openVerifiedBundle
 */
export async function openServedModel(options: ServedModelOptions): Promise<OpenedModel> {
  const { bundle, threads, library, provider, kvBudgetBytes, compiled = slotCounts, stateDir, progress, logger } = options
  const described = await readManifest(bundle)
  chainParts(described)
  const { split, files } = described
  const answers = options.answers && files.some(({ path }) => path === `${tokenizerFolder}/${tokenizerFile}`)
  const model = await openVerifiedBundle(bundle, {
    library,
    provider,
    parts: partsOf(split, answers),
    threads,
    slots: compiled,
    // All that streams have used at once is theirs again.
    maxFreeKvBytes: kvBudgetBytes,
    verified: new VerifiedBundles(stateDir),
    progress,
    logger,
  })
  const { manifest } = model
  return {
    folder: bundle,
    manifest,
    get computing() {
      return model.computing
    },
    served: servedBy(model, answers),
    slots: Math.max(...slotCounts),
    releaseFree: () => model.releaseFree(),
    close: () => model.release(),
  }
}

function servedBy(model: LoadedModel, answers: boolean): ServedModel {
  const { split, dims } = model.manifest
  if (split === null) return wholeModel(model.chain({ cuts: 'full' }))
  const around = answers && { input: model.part('input'), head: shareHead(model.head(), dims.vocab) }
  return splitModel(model.part('middle'), around || undefined)
}

function partsOf(split: Manifest['split'], answers: boolean): readonly PartName[] {
  if (split === null) return ['whole']
  return answers ? ['input', 'middle', 'output'] : ['middle']
}
