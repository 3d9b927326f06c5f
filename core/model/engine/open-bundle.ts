import { createHash } from 'node:crypto'
import { arch, cpus } from 'node:os'
import type { Logger } from '../../kit/base/logger.ts'
import type { Progress } from '../../kit/base/progress.ts'
import type { ShownComputing } from '../../wire/protocol/computing.ts'
import { chainParts, readManifest } from '../bundle/bundle.ts'
import { filesOf } from '../bundle/bundle-files.ts'
import type { Manifest, PartName } from '../bundle/manifest.ts'
import { VerifiedBundles } from '../bundle/verified-bundles.ts'
import { openRuntime } from './capi.ts'
import { afterFailure, afterLoss, type Computing, chooseProvider } from './choose-provider.ts'
import { type LoadedModel, type OpenModelOptions, openModel } from './open-model.ts'
import { cpuProvider, type Provider, type ProviderWish } from './provider.ts'
import { hasLostDevice, RecoveringModel } from './recovering-model.ts'
import type { Runtime } from './runtime.ts'
import { testLoadedParts } from './self-test.ts'
import { watchRuns } from './watch-runs.ts'

interface OpenBundleOptions extends OpenModelOptions {
  /** Path of a libonnxruntime. Default: the one of onnxruntime-node. */
  readonly library?: string | undefined
  /** What is to compute. Default: the CPU. */
  readonly provider?: ProviderWish | undefined
}

/** Parts of a bundle, and what computes them. */
export interface ComputedModel extends LoadedModel {
  readonly computing: ShownComputing
}

const onCpu: ProviderWish = { name: 'cpu' }

/**
 * Opens parts of a bundle on a separate runtime, which is closed with them.
 * @throws BrimError as openRuntime and openModel
 */
export async function openBundle(
  folder: string,
  { library, provider = onCpu, ...options }: OpenBundleOptions,
): Promise<ComputedModel> {
  const manifest = await readManifest(folder)
  const parts = options.parts === 'chain' ? chainParts(manifest) : options.parts
  const { threads } = options
  const request = { folder, manifest, parts, threads, library, wish: provider, verified: new VerifiedBundles() }
  return openChosen(provider, await chooseProvider(request), async (chosen) => {
    const runtime = await openRuntime({ library, provider: chosen })
    return { runtime, model: await openOn(runtime, folder, options) }
  })
}

interface OpenVerifiedOptions extends OpenBundleOptions {
  readonly parts: readonly PartName[]
  /** What this machine has verified before. */
  readonly verified: VerifiedBundles
  /** Notices a run of the library that does not return. */
  readonly progress?: Progress | undefined
  readonly logger?: Logger | undefined
}

/**
 * Opens parts of a bundle whose files have the hashes of the manifest. The golden vectors run before the first use on this
 * machine, and again after a change of the bundle, ONNX Runtime or the CPU.
 * @throws BrimError BUNDLE_CORRUPT naming the file or the parts, and as openBundle
 */
export async function openVerifiedBundle(
  folder: string,
  { verified, library, provider = onCpu, progress, logger, ...options }: OpenVerifiedOptions,
): Promise<ComputedModel> {
  const { parts, threads } = options
  const manifest = await readManifest(folder)
  await verified.verifyFiles(folder, filesOf(manifest, parts))
  const request = { folder, manifest, parts, threads, library, wish: provider, verified }
  const onLost = (err: Error) => logger?.error({ err, modelId: manifest.modelId }, 'GPU lost, the CPU computes')
  const opening = async (chosen: Provider) => {
    const own = await openRuntime({ library, provider: chosen })
    const runtime = progress ? watchRuns(own, progress) : own
    const model = await openOn(runtime, folder, options)
    try {
      const test = testOf(manifest, parts, runtime)
      if (!verified.hasPassed(test)) await testLoadedParts(model, folder, parts)
      verified.recordPassed(test)
      return { runtime, model }
    } catch (error) {
      await model.release()
      throw error
    }
  }
  return openChosen(provider, await chooseProvider(request), opening, onLost)
}

interface OpenedOn {
  readonly runtime: Runtime
  readonly model: LoadedModel
}

/** A provider that `auto` has chosen may fail all the same, as where other models have its memory: then the CPU computes. */
async function openChosen(
  wish: ProviderWish,
  chosen: Computing,
  open: (provider: Provider) => Promise<OpenedOn>,
  onLost: (error: Error) => void = () => {},
): Promise<ComputedModel> {
  const openOnCpu = async () => (await open(cpuProvider)).model
  const computing = chosen.shown
  if (chosen.provider.name === cpuProvider.name) return Object.assign(await openOnCpu(), { computing })
  const lost = (error: Error) => {
    onLost(error)
    return afterLoss(chosen, error).shown
  }
  try {
    const { runtime, model } = await open(chosen.provider)
    return new RecoveringModel({ model, computing, isLost: () => hasLostDevice(runtime), openOnCpu, onLost: lost })
  } catch (error) {
    if (wish.name !== 'auto') throw error
    return Object.assign(await openOnCpu(), { computing: afterFailure(chosen, error).shown })
  }
}

async function openOn(runtime: Runtime, folder: string, options: OpenModelOptions): Promise<LoadedModel> {
  try {
    return await openModel(runtime, folder, { ...options, onRelease: () => runtime.close() })
  } catch (error) {
    await runtime.close()
    throw error
  }
}

/** Names the self-test of these parts on this machine. The hashes cover drafters too, which the model id leaves out. */
function testOf({ modelId, files }: Manifest, parts: readonly PartName[], { info, device }: Runtime): string {
  const { library, version, provider } = info
  const bundle = createHash('sha256').update(JSON.stringify(files)).digest('hex')
  return [modelId, bundle, parts.join(','), version, library, provider, device?.type, arch(), cpus()[0]?.model].join('|')
}
