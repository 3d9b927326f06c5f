import { rm } from 'node:fs/promises'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import { openRuntime } from '../../core/engine/capi.ts'
import { type PartTest, testPart } from '../../core/engine/self-test.ts'
import { devicePartsOf } from '../../core/model/bundle-files.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { bundlePath, InstallInput } from '../../core/protocol/jobs.ts'
import type { BundleFolder } from '../bundles/bundle-folder.ts'
import { fetchFiles, fetchManifest } from '../bundles/fetch-bundle.ts'
import type { OwnBridge } from '../bundles/get.ts'
import type { JobHandler } from './job-handler.ts'

export interface InstallOptions {
  readonly folder: BundleFolder
  /** Of the bridge whose broker that is; undefined while it is not known where its HTTP is. */
  readonly bridgeOf: (link: string) => OwnBridge | undefined
  /** Folders of bundles that the running agent has open. */
  readonly inUse: readonly string[]
  readonly threads: number
  readonly library?: string | undefined
  readonly clock: Clock
}

const stallMs = 30_000

/** What is there already is of no use, or in the way; else the same may succeed later, and that is not fetched again. */
const useless: ReadonlySet<ErrorCode> = new Set(['BUNDLE_CORRUPT', 'BUNDLE_INVALID', 'DISK_FULL'])

/**
 * `bundle.install`: the parts of a model that run on a device, fetched, held against their hashes, tried out on this machine
 * and put where the agent finds them. Installed already and intact, it is done.
 */
export function bundleInstall({ folder, bridgeOf, inUse, threads, library, clock }: InstallOptions): JobHandler {
  return async (input, _say, signal, { link, progress }) => {
    const parsed = InstallInput.safeParse(input)
    if (!parsed.success)
      throw new BrimError('REQUEST_INVALID', `the job's input: ${parsed.error.issues[0]?.message ?? 'invalid'}`)
    const { modelId, manifestSha256 } = parsed.data
    const own = bridgeOf(link)
    const url = parsed.data.url ?? (own && `${own.origin}${bundlePath(modelId)}`)
    if (url === undefined) throw new BrimError('BUNDLE_UNAVAILABLE', 'the bridge has not said yet where its bundles are')
    const startedMs = clock.nowMs()
    const resultOf = (manifest: string, more: object) => ({ modelId, manifestSha256: manifest, ...more })
    // Where all is said that tells versions apart, nobody needs to be asked.
    if (manifestSha256 !== undefined && (await folder.isIntact({ modelId, manifestSha256 }, signal)))
      return resultOf(manifestSha256, { wasInstalled: true })
    const options = { own, stallMs, signal }
    const found = await fetchManifest({ modelId, manifestSha256, url }, options)
    if (await folder.isIntact(found, signal)) return resultOf(found.manifestSha256, { wasInstalled: true })
    try {
      const { manifest, bytes, fetchedBytes } = await fetchFiles(folder, found, url, options, progress)
      const probes = await probe(await folder.partial(found), manifest, { threads, library, signal })
      await folder.install(found)
      const removed = await folder.removeUnused([...inUse, folder.folderOf(modelId)], Date.now())
      const { name } = manifest.card
      const tookMs = clock.nowMs() - startedMs
      return resultOf(found.manifestSha256, { wasInstalled: false, name, bytes, fetchedBytes, probes, removed, tookMs })
    } catch (error) {
      const isUseless = !signal.aborted && error instanceof BrimError && useless.has(error.code)
      if (isUseless) await rm(await folder.partial(found), { recursive: true, force: true })
      throw error
    }
  }
}

/** @throws BrimError BUNDLE_CORRUPT naming the parts that compute something else here, and what running them may throw */
async function probe(
  folder: string,
  manifest: Manifest,
  { threads, library, signal }: { threads: number; library?: string | undefined; signal: AbortSignal },
): Promise<PartTest[]> {
  const runtime = await openRuntime({ library })
  try {
    const tests: PartTest[] = []
    for (const part of devicePartsOf(manifest)) {
      signal.throwIfAborted()
      tests.push(await testPart(runtime, folder, manifest, part, threads))
    }
    const failed = tests.filter(({ passed }) => !passed).map(({ part }) => part)
    if (failed.length === 0) return tests
    throw new BrimError('BUNDLE_CORRUPT', `part ${failed.join(', ')} computes other results here than where it was built`, {
      hint: 'try another ONNX Runtime on the device (ORT_LIB)',
    })
  } finally {
    await runtime.close()
  }
}
