import { openRuntime } from './capi.ts'
import { type LoadedModel, type OpenModelOptions, openModel } from './open-model.ts'

interface OpenBundleOptions extends OpenModelOptions {
  /** Path of a libonnxruntime. Default: the one of onnxruntime-node. */
  readonly library?: string | undefined
}

/**
 * Opens parts of a bundle on a separate runtime, which is closed with them.
 * @throws BrimError as openRuntime and openModel
 */
export async function openBundle(folder: string, { library, ...options }: OpenBundleOptions): Promise<LoadedModel> {
  const runtime = await openRuntime({ library })
  try {
    return await openModel(runtime, folder, { ...options, onRelease: () => runtime.close() })
  } catch (error) {
    await runtime.close()
    throw error
  }
}
