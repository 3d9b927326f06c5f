import { createHash } from 'node:crypto'
import { stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../core/base/errors.ts'
import { readManifest } from '../../core/model/bundle.ts'
import { devicePartsOf, filesOf, partsOf } from '../../core/model/bundle-files.ts'
import { type Manifest, manifestFile } from '../../core/model/manifest.ts'
import type { BundleFolder, BundleVersion } from './bundle-folder.ts'
import { fetchFile } from './fetch-file.ts'
import { type GetOptions, get, unavailable } from './get.ts'

const maxManifestBytes = 32 * 2 ** 20
/** Stays free: the device has other work to write. */
const reserveBytes = 256 * 2 ** 20

export interface BundleRequest {
  readonly modelId: string
  /** Absent: whatever the server has of that model. */
  readonly manifestSha256?: string | undefined
  /** Folder of the bundle, as seen from the device. */
  readonly url: string
}

/** A manifest as its server has it. */
export interface FetchedManifest extends BundleVersion {
  readonly json: Buffer
}

/** @throws BrimError BUNDLE_INVALID where it is another than the one that is wanted, and as get */
export async function fetchManifest(wanted: BundleRequest, options: GetOptions): Promise<FetchedManifest> {
  const url = fileUrl(wanted.url, manifestFile)
  const { body } = await get(url, options)
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.byteLength
      if (bytes > maxManifestBytes) throw new BrimError('BUNDLE_INVALID', `${url.href} is no manifest: it does not end`)
      chunks.push(chunk)
    }
  } catch (cause) {
    options.signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : unavailable(url, cause)
  } finally {
    body.destroy()
  }
  const json = Buffer.concat(chunks)
  const manifestSha256 = createHash('sha256').update(json).digest('hex')
  if (wanted.manifestSha256 !== undefined && wanted.manifestSha256 !== manifestSha256)
    throw new BrimError('BUNDLE_INVALID', `${url.href} is not the manifest that is wanted: its sha256 differs`)
  return { modelId: wanted.modelId, manifestSha256, json }
}

/**
 * Gathers the files of a bundle that a device needs, each held against its hash; what an earlier call left is not fetched
 * again. What turns out to be broken is removed.
 * @param onBytes how many bytes of how many are there
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
    throw new BrimError('BUNDLE_INVALID', `${url} holds model ${short(manifest.modelId)}, not ${short(found.modelId)}`)
  const files = filesOf(manifest, devicePartsOf(manifest))
  if (files.some(({ path }) => path === manifestFile)) throw new BrimError('BUNDLE_INVALID', `${url} lists its own manifest`)
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
  if (!(await missingSpace(to, files)).isThere) await folder.removeOtherPartials(found)
  requireSpace(await missingSpace(to, files))
  let done = 0
  let fetchedBytes = 0
  for (const { path, bytes, sha256 } of files) {
    const wanted = { url: fileUrl(url, path), to: join(to, path), bytes, sha256 }
    const got = await fetchFile(wanted, options, (have) => onBytes(done + have, total))
    if (!got.isRight) throw brokenPart(manifest, path)
    done += bytes
    fetchedBytes += got.fetchedBytes
  }
  return { manifest, bytes: total, fetchedBytes }
}

/** @param path as the manifest has it: a relative one, without `..` */
function fileUrl(base: string, path: string): URL {
  const url = new URL(base)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`
  return url
}

function brokenPart(manifest: Manifest, path: string): BrimError {
  const parts = partsOf(manifest, path)
  const what = parts.length === 0 ? path : `part ${parts.join(', ')} (${path})`
  return new BrimError('BUNDLE_CORRUPT', `${what} is not what was built: its sha256 differs`, {
    hint: 'copy the bundle to its server again',
  })
}

interface Space {
  readonly missingBytes: number
  readonly freeBytes: number
  readonly isThere: boolean
}

async function missingSpace(folder: string, files: Manifest['files']): Promise<Space> {
  const sizes = await Promise.all(files.map(({ path }) => stat(join(folder, path)).catch(() => undefined)))
  const missingBytes = files.reduce((sum, { bytes }, at) => sum + Math.max(0, bytes - (sizes[at]?.size ?? 0)), 0)
  const { bavail, bsize } = await statfs(folder)
  const freeBytes = bavail * bsize
  return { missingBytes, freeBytes, isThere: missingBytes + reserveBytes <= freeBytes }
}

function requireSpace({ missingBytes, freeBytes, isThere }: Space): void {
  if (isThere) return
  const mb = (bytes: number) => `${Math.ceil(bytes / 2 ** 20)} MB`
  throw new BrimError(
    'DISK_FULL',
    `the bundle needs ${mb(missingBytes)} more, ${mb(freeBytes)} are free, ${mb(reserveBytes)} of them kept`,
    { hint: 'free some space on the device, then retry the job' },
  )
}

const short = (modelId: string) => `${modelId.slice(0, 12)}…`
