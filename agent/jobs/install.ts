import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { devicePartsOf } from '../../core/model/bundle/bundle-files.ts'
import { manifestFile } from '../../core/model/bundle/manifest.ts'
import { requirePassed } from '../../core/model/engine/self-test.ts'
import { type SelfTestLimits, testBundle } from '../../core/model/engine/self-test-process.ts'
import { bundleOperations } from '../../core/wire/protocol/http/bundles.ts'
import { InstallInput } from '../../core/wire/protocol/jobs.ts'
import { type PublicKey, requireSigned, type SignatureFile, signatureFile } from '../../core/wire/signing/signature.ts'
import { parseSignatures, readSignatures } from '../../core/wire/signing/signature-file.ts'
import type { BundleActivation } from '../bundles/bundle-activation.ts'
import type { BundleFolder, BundleVersion } from '../bundles/bundle-folder.ts'
import { fetchFiles, fetchManifest, fetchSignatures } from '../bundles/fetch-bundle.ts'
import type { GetOptions, GetOptionsOf } from '../bundles/get.ts'
import type { Numbered, SequenceFloors } from '../bundles/sequence-floors.ts'
import { type JobContext, type JobHandler, parseInput } from './job-handler.ts'

export interface InstallOptions {
  readonly folder: BundleFolder
  readonly getOptions: GetOptionsOf
  /** Keys by which bundles must be signed; absent: they need no signature. */
  readonly trustedKeys?: readonly PublicKey[] | undefined
  /** Of the bundles that were signed by one of them. */
  readonly floors: SequenceFloors
  /** Bundle folders that the running agent uses. */
  readonly inUse: () => readonly string[]
  /** Makes the device answer with a bundle, or with the one before where it is not healthy. @returns how it was activated */
  readonly activate: (activation: BundleActivation, signal: AbortSignal) => Promise<string>
  readonly threads: number
  readonly library?: string | undefined
  readonly limits: SelfTestLimits
  readonly clock: Clock
  readonly logger: Logger
}

/** Errors after which the downloaded files are deleted. After others a retry may succeed, and continues the download. */
const discardAfter: ReadonlySet<ErrorCode> = new Set([
  'BUNDLE_CORRUPT',
  'BUNDLE_INVALID',
  'SIGNATURE_INVALID',
  'DOWNGRADE_REFUSED',
  'DISK_FULL',
])

/** What a job asks for. */
interface Wanted {
  readonly version: BundleVersion
  readonly url: string
  readonly allowDowngrade: boolean
}

/** Of a manifest that is signed: the versions of a bundle have one name. */
const NamedManifest = z.object({ card: z.object({ name: z.string() }) })

/** A version whose files are complete and tested on this device. */
interface Staged {
  readonly folder: string
  /** @returns its folder among the installed ones */
  readonly commit: () => Promise<string>
  /** Undefined: it needs no signature. */
  readonly numbered: Numbered | undefined
  readonly figures: Readonly<Record<string, unknown>>
}

/**
 * `bundle.install`: downloads the device's parts of a model, verifies signature and hashes, tests them on this machine and
 * installs them. Succeeds at once if the same version is installed and intact. With `activate`, the device then answers with
 * it, also after restarts: beside the installed ones it opens and answers the probe first.
 */
export function bundleInstall({
  folder,
  getOptions,
  trustedKeys,
  floors,
  inUse,
  activate,
  threads,
  library,
  limits,
  clock,
  logger,
}: InstallOptions): JobHandler {
  /**
   * Requires a signature by a trusted key where any is configured.
   * @param at folder that may hold the file of signatures
   * @returns its key and number, and the file of signatures if it is new
   * @throws BrimError SIGNATURE_INVALID, DOWNGRADE_REFUSED, BUNDLE_UNAVAILABLE
   */
  async function verify({ version, url, allowDowngrade }: Wanted, at: string, json: Buffer, options: GetOptions) {
    if (trustedKeys === undefined) return { signedBy: null, numbered: undefined, fetched: undefined }
    const checked = (signatures: SignatureFile, fetched?: Buffer) => {
      const { publicKey, sequence } = requireSigned('bundle', version.manifestSha256, signatures, trustedKeys)
      const { name } = NamedManifest.parse(JSON.parse(json.toString('utf8'))).card
      const numbered = { series: `bundle ${name}`, name: version.manifestSha256, sequence, allowDowngrade }
      floors.require(numbered)
      return { signedBy: publicKey, numbered, fetched }
    }
    try {
      const known = await readSignatures(at)
      if (known) return checked(known)
    } catch (error) {
      // The bundle may have been signed again since then.
      if (!(error instanceof BrimError)) throw error
    }
    const fetched = await fetchSignatures({ url }, options)
    return checked(parseSignatures(fetched), fetched)
  }

  /** Downloads and tests a version, unless it is installed. */
  async function stage(wanted: Wanted, options: GetOptions, progress: JobContext['progress']): Promise<Staged> {
    const { version, url } = wanted
    // The manifest's hash identifies the version, so no request to the server is needed.
    if (await folder.isIntact(version, options.signal)) {
      const at = folder.folderOf(version.modelId)
      const json = await readFile(join(at, manifestFile))
      const { signedBy, numbered, fetched } = await verify(wanted, at, json, options)
      if (fetched) await writeFile(join(at, signatureFile), fetched, { flush: true })
      return { folder: at, commit: async () => at, numbered, figures: { wasInstalled: true, signedBy } }
    }
    const found = await fetchManifest({ ...version, url }, options)
    const at = await folder.partial(found)
    try {
      const { signedBy, numbered, fetched } = await verify(wanted, at, found.json, options)
      if (fetched) await writeFile(join(at, signatureFile), fetched, { flush: true })
      const { manifest, bytes, fetchedBytes } = await fetchFiles(folder, found, url, options, progress)
      const { signal } = options
      const probes = await testBundle(at, manifest, devicePartsOf(manifest), { threads, library, limits, signal })
      requirePassed(probes)
      const figures = { wasInstalled: false, name: manifest.card.name, bytes, fetchedBytes, probes, signedBy }
      return { folder: at, commit: () => folder.install(found), numbered, figures }
    } catch (error) {
      const mustDiscard = !options.signal.aborted && error instanceof BrimError && discardAfter.has(error.code)
      if (mustDiscard) await rm(at, { recursive: true, force: true })
      throw error
    }
  }

  return async (input, _emitText, signal, { id: job, link, progress }) => {
    const asked = parseInput(InstallInput, input)
    const { modelId, manifestSha256, url: givenUrl, activate: mustActivate = false, probe } = asked
    const options = getOptions(link, signal)
    const { own } = options
    const url = givenUrl ?? (own && `${own.origin}${bundleOperations.list.path}/${modelId}`)
    if (url === undefined)
      throw new BrimError('BUNDLE_UNAVAILABLE', 'the device does not know the HTTP address of its bridge yet')
    const startedMs = clock.nowMs()
    const version = { modelId, manifestSha256 }
    const staged = await stage({ version, url, allowDowngrade: asked.allowDowngrade === true }, options, progress)
    if (staged.figures.signedBy === null)
      logger.warn({ modelId }, 'bundle accepted without a signature: this device has no --trusted-key')
    const activation = mustActivate ? await activate({ ...version, ...staged, probe, job }, signal) : undefined
    if (!mustActivate) await staged.commit()
    if (staged.numbered) {
      floors.begin(staged.numbered)
      floors.keep(staged.numbered.name)
    }
    const removed = await folder.removeUnused([...inUse(), folder.folderOf(modelId)], Date.now())
    const activated = activation === undefined ? {} : { activated: true, activation }
    return { ...version, ...staged.figures, removed, ...activated, tookMs: clock.nowMs() - startedMs }
  }
}
