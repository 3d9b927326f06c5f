import { createHash } from 'node:crypto'
import { stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { megabytes } from '../../core/kit/base/megabytes.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { devicePartsOf, filesOf, partsOf } from '../../core/model/bundle/bundle-files.ts'
import { type Manifest, manifestFile, maxManifestBytes } from '../../core/model/bundle/manifest.ts'
import { maxSignatureBytes, type SignedKind, signatureFile } from '../../core/wire/signing/signature.ts'
import type { BundleFolder, BundleVersion } from './bundle-folder.ts'
import { fetchFile } from './fetch-file.ts'
import { fetchSmall } from './fetch-small.ts'
import type { GetOptions } from './get.ts'

/** Free space that a download leaves for other programs. */
const reserveBytes = 256 * 2 ** 20

interface BundleRequest extends BundleVersion {
  /** URL of the bundle's folder, reachable from the device. */
  readonly url: string
}

/** The manifest as the server sent it. */
interface FetchedManifest extends BundleVersion {
  readonly json: Buffer
}

/** @throws BrimError BUNDLE_INVALID if its hash differs from the requested one, and as get */
export async function fetchManifest(request: BundleRequest, options: GetOptions): Promise<FetchedManifest> {
  const url = fileUrl(request.url, manifestFile)
  const json = await fetchSmall(url, maxManifestBytes, options)
  const manifestSha256 = createHash('sha256').update(json).digest('hex')
  if (request.manifestSha256 !== manifestSha256)
    throw new BrimError('BUNDLE_INVALID', `${shownUrl(url)} is not the requested manifest: its sha256 differs`)
  return { modelId: request.modelId, manifestSha256, json }
}

/**
 * The file of signatures of a bundle.
 * @throws BrimError SIGNATURE_INVALID if there is none, BUNDLE_UNAVAILABLE
 */
export const fetchSignatures = ({ url }: Pick<BundleRequest, 'url'>, options: GetOptions): Promise<Buffer> =>
  fetchSignaturesAt('bundle', fileUrl(url, signatureFile), options)

/** @throws BrimError SIGNATURE_INVALID if there is none, BUNDLE_UNAVAILABLE */
export async function fetchSignaturesAt(kind: SignedKind, url: URL, options: GetOptions): Promise<Buffer> {
  try {
    return await fetchSmall(url, maxSignatureBytes, options)
  } catch (cause) {
    if (!(cause instanceof BrimError) || cause.code !== 'BUNDLE_INVALID') throw cause
    const others = kind === 'bundle' ? ', or start the agent without --trusted-key' : ''
    throw new BrimError('SIGNATURE_INVALID', `the ${kind} is not signed, but this device requires it: ${cause.message}`, {
      cause,
      hint: `sign it with "brim bundle sign" and push it again${others}`,
    })
  }
}

/**
 * Downloads the files of a bundle that a device needs, and verifies their hashes. Continues the download of an earlier
 * call. Deletes files whose hash is wrong.
 * @param onBytes called with the downloaded and the total number of bytes
 * @throws BrimError BUNDLE_UNAVAILABLE, BUNDLE_INVALID, BUNDLE_CORRUPT, DISK_FULL, and as get
 */
export async function fetchFiles(
  folder: BundleFolder,
  found: FetchedManifest,
  url: string,
  options: GetOptions,
  onBytes: (done: number, total: number) => void,
): Promise<{ manifest: Manifest; bytes: number; fetchedBytes: number }> {
  const to = await folder.partial(found)
  await writeFile(join(to, manifestFile), found.json, { flush: true })
  const manifest = await readManifest(to)
  if (manifest.modelId !== found.modelId)
    throw new BrimError('BUNDLE_INVALID', `${shownUrl(url)} holds model ${short(manifest.modelId)}, not ${short(found.modelId)}`)
  const files = filesOf(manifest, devicePartsOf(manifest))
  if (files.some(({ path }) => path === manifestFile || path === signatureFile))
    throw new BrimError('BUNDLE_INVALID', `${shownUrl(url)} lists its own manifest or signatures`)
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
  if (!(await missingSpace(to, files)).fits) await folder.removeOtherPartials(found)
  requireSpace(await missingSpace(to, files))
  let done = 0
  let fetchedBytes = 0
  for (const { path, bytes, sha256 } of files) {
    const wanted = { url: fileUrl(url, path), to: join(to, path), bytes, sha256 }
    const got = await fetchFile(wanted, options, (have) => onBytes(done + have, total))
    if (!got.isIntact) throw brokenPart(manifest, path)
    done += bytes
    fetchedBytes += got.fetchedBytes
  }
  return { manifest, bytes: total, fetchedBytes }
}

/** @param path relative, without `..`, as the manifest guarantees */
function fileUrl(base: string, path: string): URL {
  const url = new URL(base)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`
  return url
}

function brokenPart(manifest: Manifest, path: string): BrimError {
  const parts = partsOf(manifest, path)
  const what = parts.length === 0 ? path : `part ${parts.join(', ')} (${path})`
  return new BrimError('BUNDLE_CORRUPT', `${what} differs from the built one: its sha256 is wrong`, {
    hint: 'copy the bundle to its server again',
  })
}

interface Space {
  readonly missingBytes: number
  readonly freeBytes: number
  readonly fits: boolean
}

async function missingSpace(folder: string, files: Manifest['files']): Promise<Space> {
  const sizes = await Promise.all(files.map(({ path }) => stat(join(folder, path)).catch(() => undefined)))
  const missingBytes = files.reduce((sum, { bytes }, at) => sum + Math.max(0, bytes - (sizes[at]?.size ?? 0)), 0)
  const { bavail, bsize } = await statfs(folder)
  const freeBytes = bavail * bsize
  return { missingBytes, freeBytes, fits: missingBytes + reserveBytes <= freeBytes }
}

function requireSpace({ missingBytes, freeBytes, fits }: Space): void {
  if (fits) return
  throw new BrimError(
    'DISK_FULL',
    `the bundle needs ${megabytes(missingBytes)} more; ${megabytes(freeBytes)} are free, of which ${megabytes(reserveBytes)} stay reserved`,
    { hint: 'free space on the device, then retry the job' },
  )
}

const short = (modelId: string) => `${modelId.slice(0, 12)}…`
