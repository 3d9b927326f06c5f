import { mkdirSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { megabytes } from '../../core/kit/base/megabytes.ts'
import { releaseOperations, type ServedRelease } from '../../core/wire/protocol/http/releases.ts'
import { SoftwareInput } from '../../core/wire/protocol/jobs.ts'
import { type PublicKey, requireSigned } from '../../core/wire/signing/signature.ts'
import { parseSignatures } from '../../core/wire/signing/signature-file.ts'
import { fetchSignaturesAt } from '../bundles/fetch-bundle.ts'
import { fetchFile } from '../bundles/fetch-file.ts'
import { fetchSmall } from '../bundles/fetch-small.ts'
import { type GetOptions, type GetOptionsOf, patiently, startDownload } from '../bundles/get.ts'
import type { Numbered } from '../bundles/sequence-floors.ts'
import { type JobHandler, parseInput, RestartRequired } from '../jobs/job-handler.ts'
import { isKept } from '../jobs/wait-for-trial.ts'
import type { Software } from './software.ts'

export interface SoftwareInstallOptions {
  readonly software: Software
  /** Keys by one of which a release must be signed. */
  readonly trustedKeys: readonly PublicKey[]
  readonly getOptions: GetOptionsOf
  /** Ends the process once nothing is in progress. */
  readonly restart: () => void
  readonly clock: Clock
}

const maxListBytes = 2 ** 20
const maxArchiveBytes = 4 * 2 ** 30
/** Free space that must remain. */
const reserveBytes = 256 * 2 ** 20
/** Archives are compressed: unpacked they have about this many times their size. */
const unpackedFactor = 4

interface Source {
  readonly archive: URL
  readonly signature: URL
  readonly bytes: number
}

/**
 * `software.install`: downloads a signed release of the agent, installs it beside the running one, and ends the process so that it
 * is started. The next attempt of the job reports whether the device was healthy with it.
 */
export function softwareInstall(options: SoftwareInstallOptions): JobHandler {
  const { software, restart, clock } = options
  return async (input, _emitText, signal, { id, link, progress }) => {
    const wanted = parseInput(SoftwareInput, input)
    const { version, archiveSha256, probe } = wanted
    const release = `${version}-${archiveSha256.slice(0, 8)}`
    const result = { version, archiveSha256, release }
    if (await isKept(() => software.nextStep(id, release), clock, signal)) return result
    software.floors.begin(await download(options, wanted, release, link, progress, signal))
    software.begin(id, release, probe)
    restart()
    throw new RestartRequired()
  }
}

/** @throws BrimError SIGNATURE_INVALID, DOWNGRADE_REFUSED, BUNDLE_UNAVAILABLE, BUNDLE_CORRUPT, RELEASE_INVALID, DISK_FULL */
async function download(
  { software, trustedKeys, getOptions }: SoftwareInstallOptions,
  { version, archiveSha256, url, allowDowngrade }: SoftwareInput,
  release: string,
  link: string,
  progress: (done: number, total: number) => void,
  signal: AbortSignal,
): Promise<Numbered> {
  if (trustedKeys.length === 0)
    throw new BrimError('SIGNATURE_INVALID', 'this device trusts no key, so that it installs no software', {
      hint: 'its owner sets trusted-key to the public key that signs releases',
    })
  const platform = `linux-${process.arch}`
  const options = getOptions(link, signal)
  const source = url === undefined ? await atBridge(archiveSha256, options) : await atServer(new URL(url), options)
  const signatures = parseSignatures(await fetchSignaturesAt('software', source.signature, options))
  const { sequence } = requireSigned('software', archiveSha256, signatures, trustedKeys)
  const numbered = { series: 'software', name: release, sequence, allowDowngrade: allowDowngrade === true }
  software.floors.require(numbered)
  const { folder } = software
  if (!folder.has(release)) {
    const to = folder.archiveOf(archiveSha256)
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 })
    await folder.removeOtherPartials(archiveSha256)
    await requireSpace(dirname(to), source.bytes)
    const file = { url: source.archive, to, bytes: source.bytes, sha256: archiveSha256 }
    const { isIntact } = await fetchFile(file, options, (done) => progress(done, source.bytes))
    if (!isIntact)
      throw new BrimError('BUNDLE_CORRUPT', 'the archive has another sha256 than the requested one', {
        hint: 'push the archive to the bridge again',
      })
    await folder.install(release, archiveSha256, version, platform, signal)
  }
  return numbered
}

/** The archive at the bridge that sent the job. */
async function atBridge(sha256: string, options: GetOptions): Promise<Source> {
  const { own } = options
  if (!own) throw new BrimError('BUNDLE_UNAVAILABLE', 'the device does not know the HTTP address of its bridge yet')
  const { list, archive, signature } = releaseOperations
  const json = await fetchSmall(new URL(list.path, own.origin), maxListBytes, options)
  const { releases } = list.response.parse(JSON.parse(json.toString('utf8'))) as { releases: ServedRelease[] }
  const found = releases.find((each) => each.sha256 === sha256)
  const at = (path: string) => new URL(path.replace(':sha256', sha256), own.origin)
  if (found) return { archive: at(archive.path), signature: at(signature.path), bytes: found.bytes }
  throw new BrimError('RELEASE_INVALID', `the bridge has no release with the sha256 ${sha256}`, {
    hint: '"brim bundle push" uploads one',
  })
}

/** An archive at another server, its signatures beside it. */
async function atServer(archive: URL, options: GetOptions): Promise<Source> {
  const signature = new URL(archive)
  signature.pathname += '.sig.json'
  const { body } = await patiently(() => startDownload(archive, options), options)
  body.destroy()
  const bytes = Number(body.headers['content-length'])
  if (bytes > 0 && bytes <= maxArchiveBytes) return { archive, signature, bytes }
  throw new BrimError('RELEASE_INVALID', 'the server does not say the size of the archive', { hint: 'use a plain file server' })
}

async function requireSpace(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const needed = bytes * (1 + unpackedFactor) + reserveBytes
  if (bavail * bsize >= needed) return
  throw new BrimError('DISK_FULL', `the release needs ${megabytes(needed)}; ${megabytes(bavail * bsize)} are free`, {
    hint: 'free space on the device, then submit a new job',
  })
}
