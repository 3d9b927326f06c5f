import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { sha256OfFile } from '../../../core/kit/base/sha256-of-file.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { type Manifest, manifestFile } from '../../../core/model/bundle/manifest.ts'
import { releasePlatforms } from '../../../core/wire/protocol/http/releases.ts'
import { type SignatureFile, type SignedKind, signatureFile } from '../../../core/wire/signing/signature.ts'
import { readSignaturesAt } from '../../../core/wire/signing/signature-file.ts'

interface Signed {
  readonly kind: SignedKind
  /** Of the manifest, or of the archive. */
  readonly sha256: string
  /** Where its signatures are. */
  readonly signaturePath: string
  readonly signatures: SignatureFile | undefined
}

export interface BundlePackage extends Signed {
  readonly kind: 'bundle'
  readonly folder: string
  readonly manifest: Manifest
  /** Text of manifest.json. */
  readonly text: string
}

export interface ReleasePackage extends Signed {
  readonly kind: 'software'
  readonly archive: string
  readonly bytes: number
  readonly version: string
  readonly platform: (typeof releasePlatforms)[number]
}

/**
 * What can be signed and pushed: the folder of a bundle, or the archive of a release, whose name says version and platform.
 * @throws BrimError USAGE, BUNDLE_INVALID, SIGNATURE_INVALID
 */
export async function readPackage(path: string): Promise<BundlePackage | ReleasePackage> {
  const found = await stat(path).catch(() => undefined)
  if (!found)
    throw new BrimError('USAGE', `${path} does not exist`, { hint: 'give the folder of a bundle, or the archive of a release' })
  return found.isDirectory() ? readBundle(path) : readRelease(path, found.size)
}

async function readBundle(folder: string): Promise<BundlePackage> {
  const manifest = await readManifest(folder)
  const text = await readFile(join(folder, manifestFile), 'utf8')
  const sha256 = createHash('sha256').update(text).digest('hex')
  const signaturePath = join(folder, signatureFile)
  return { kind: 'bundle', folder, manifest, text, sha256, signaturePath, signatures: await readSignaturesAt(signaturePath) }
}

async function readRelease(archive: string, bytes: number): Promise<ReleasePackage> {
  const [, version, name] = /^brim-(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)*?)-(linux-[a-z0-9]+)\.tar\.gz$/.exec(basename(archive)) ?? []
  const platform = releasePlatforms.find((known) => known === name)
  if (version === undefined || platform === undefined)
    throw new BrimError('USAGE', `${basename(archive)} is not named like the archive of a release`, {
      hint: `brim-<version>-<platform>.tar.gz, as scripts/package writes it; platforms: ${releasePlatforms.join(', ')}`,
    })
  const signaturePath = `${archive}.sig.json`
  const signatures = await readSignaturesAt(signaturePath)
  const sha256 = await sha256OfFile(archive)
  return { kind: 'software', archive, bytes, version, platform, sha256, signaturePath, signatures }
}
