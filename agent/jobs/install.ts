import { rm } from 'node:fs/promises'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import { type ProbeLimits, probeBundle } from '../../core/engine/probe.ts'
import { requirePassed } from '../../core/engine/self-test.ts'
import { devicePartsOf } from '../../core/model/bundle-files.ts'
import { bundleOperations } from '../../core/protocol/http/bundles.ts'
import { InstallInput } from '../../core/protocol/jobs.ts'
import type { BundleFolder, BundleVersion } from '../bundles/bundle-folder.ts'
import { fetchFiles, fetchManifest } from '../bundles/fetch-bundle.ts'
import type { OwnBridge } from '../bundles/get.ts'
import { type JobHandler, parseInput } from './job-handler.ts'

export interface InstallOptions {
  readonly folder: BundleFolder
  /** The bridge behind a broker; undefined: the device does not know the address of its HTTP yet. */
  readonly bridgeOf: (link: string) => OwnBridge | undefined
  /** Origins of other servers that jobs may name; absent: every one with a public address. */
  readonly bundleSources?: readonly string[] | undefined
  /** Bundle folders that the running agent uses. */
  readonly inUse: () => readonly string[]
  /** Makes the device answer with an installed model once no answer is in progress. */
  readonly activate: (version: BundleVersion, signal: AbortSignal) => Promise<void>
  readonly threads: number
  readonly library?: string | undefined
  readonly limits: ProbeLimits
  readonly clock: Clock
}

/** Time after which a silent server is given up. */
const stallMs = 30_000

/** Errors after which the downloaded files are deleted. After others a retry may succeed, and continues the download. */
const discardAfter: ReadonlySet<ErrorCode> = new Set(['BUNDLE_CORRUPT', 'BUNDLE_INVALID', 'DISK_FULL'])

/**
 * `bundle.install`: downloads the device's parts of a model, verifies their hashes, tests them on this machine and installs
 * them. Succeeds at once if the same version is installed and intact. With `activate`, the device then answers with it, also
 * after restarts.
 */
export function bundleInstall({
  folder,
  bridgeOf,
  bundleSources,
  inUse,
  activate,
  threads,
  library,
  limits,
  clock,
}: InstallOptions): JobHandler {
  const install: JobHandler = async (input, _emitText, signal, { link, progress }) => {
    const { modelId, manifestSha256, url: givenUrl } = parseInput(InstallInput, input)
    const own = bridgeOf(link)
    const url = givenUrl ?? (own && `${own.origin}${bundleOperations.list.path}/${modelId}`)
    if (url === undefined)
      throw new BrimError('BUNDLE_UNAVAILABLE', 'the device does not know the HTTP address of its bridge yet')
    const startedMs = clock.nowMs()
    const version = { modelId, manifestSha256 }
    // The manifest's hash identifies the version, so no request to the server is needed.
    if (await folder.isIntact(version, signal)) return { ...version, wasInstalled: true }
    const options = { own, sources: bundleSources, stallMs, signal }
    const found = await fetchManifest({ ...version, url }, options)
    try {
      const { manifest, bytes, fetchedBytes } = await fetchFiles(folder, found, url, options, progress)
      const at = await folder.partial(found)
      const probes = await probeBundle(at, manifest, devicePartsOf(manifest), { threads, library, limits, signal })
      requirePassed(probes)
      await folder.install(found)
      const removed = await folder.removeUnused([...inUse(), folder.folderOf(modelId)], Date.now())
      const { name } = manifest.card
      const tookMs = clock.nowMs() - startedMs
      return { ...version, wasInstalled: false, name, bytes, fetchedBytes, probes, removed, tookMs }
    } catch (error) {
      const mustDiscard = !signal.aborted && error instanceof BrimError && discardAfter.has(error.code)
      if (mustDiscard) await rm(await folder.partial(found), { recursive: true, force: true })
      throw error
    }
  }

  return async (input, emitText, signal, job) => {
    const { activate: wanted = false, ...version } = parseInput(InstallInput, input)
    const result = await install(input, emitText, signal, job)
    if (!wanted) return result
    await activate(version, signal)
    return { ...result, activated: true }
  }
}
