import { openRuntime } from '../../core/engine/capi.ts'
import type { Part } from '../../core/engine/contract.ts'
import { openModel } from '../../core/engine/open-model.ts'
import { type Manifest, slotCounts } from '../../core/model/manifest.ts'

export interface MiddleOptions {
  readonly bundle: string
  readonly threads: number
  /** Path of a libonnxruntime; absent: the one that comes with the packages. */
  readonly library?: string | undefined
}

export interface Middle {
  readonly part: Part
  readonly manifest: Manifest
  /** Sequences that one step can serve. */
  readonly slots: number
  close(): Promise<void>
}

/** The part of a bundle that the cloud runs, with all its packed graphs ready. @throws BrimError as openModel and openRuntime */
export async function openMiddle({ bundle, threads, library }: MiddleOptions): Promise<Middle> {
  const runtime = await openRuntime({ library })
  try {
    const model = await openModel(runtime, bundle, { parts: ['middle'], threads, slots: slotCounts })
    return {
      part: model.part('middle'),
      manifest: model.manifest,
      slots: Math.max(...slotCounts),
      async close() {
        await model.release()
        await runtime.close()
      },
    }
  } catch (error) {
    await runtime.close()
    throw error
  }
}
