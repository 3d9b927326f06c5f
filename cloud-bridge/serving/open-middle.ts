import type { Part } from '../../core/engine/contract.ts'
import { openVerifiedBundle } from '../../core/engine/open-bundle.ts'
import { type Manifest, slotCounts } from '../../core/model/manifest.ts'
import { VerifiedBundles } from '../../core/model/verified-bundles.ts'

export interface MiddleOptions {
  readonly bundle: string
  readonly threads: number
  /** Stages that the part's layers are cut into; each can compute a step of its own. */
  readonly pipeline: number
  /** Path of a libonnxruntime. Default: the library of the onnxruntime-node package. */
  readonly library?: string | undefined
  /** Folder that remembers what this machine has verified. */
  readonly stateDir: string
}

export interface Middle {
  readonly part: Part
  readonly manifest: Manifest
  /** Streams that one step can serve. */
  readonly slots: number
  close(): Promise<void>
}

/**
 * Opens the part of a bundle that the cloud runs, and compiles its packed graphs.
 * @throws BrimError as openVerifiedBundle
 */
export async function openMiddle({ bundle, threads, pipeline, library, stateDir }: MiddleOptions): Promise<Middle> {
  const model = await openVerifiedBundle(bundle, {
    library,
    parts: ['middle'],
    threads,
    stages: pipeline,
    slots: slotCounts,
    verified: new VerifiedBundles(stateDir),
  })
  return { part: model.part('middle'), manifest: model.manifest, slots: Math.max(...slotCounts), close: () => model.release() }
}
