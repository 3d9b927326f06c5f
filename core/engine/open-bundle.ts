import { openRuntime } from './capi.ts'
import { type LoadedModel, type OpenModelOptions, openModel } from './open-model.ts'

export interface OpenBundleOptions extends OpenModelOptions {
  /** Path of a libonnxruntime; absent: the one that comes with the packages. */
  readonly library?: string | undefined
}

/**
 * Parts of a bundle on a runtime of their own, which ends with them.
 * @throws BrimError as openRuntime and openModel
 */
export async function openBundle(folder: string, { library, ...options }: OpenBundleOptions): Promise<LoadedModel> {
  const runtime = await openRuntime({ library })
  try {
    const model = await openModel(runtime, folder, options)
    return {
      manifest: model.manifest,
      part: (name) => model.part(name),
      head: () => model.head(),
      medusa: () => model.medusa(),
      chain: (cuts) => model.chain(cuts),
      async release() {
        await model.release()
        await runtime.close()
      },
    }
  } catch (error) {
    await runtime.close()
    throw error
  }
}
