import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { renamePrivate } from '../../core/kit/base/private-file.ts'
import { sha256OfFile } from '../../core/kit/base/sha256-of-file.ts'
import type { BodyOf } from '../../core/wire/protocol/http/operation.ts'
import type { releaseOperations, ServedRelease } from '../../core/wire/protocol/http/releases.ts'
import type { Published } from '../../core/wire/protocol/http/uploads.ts'
import { SignatureFile } from '../../core/wire/signing/signature.ts'
import { signersOf } from '../../core/wire/signing/signature-file.ts'
import { linkFile, publishFolder, requireFitting, writeFiles } from './publishing.ts'
import type { Uploads } from './uploads.ts'

/** Releases that are retained, the newest ones. */
const maxReleases = 16

const archiveFile = 'archive.tar.gz'
const releaseFile = 'release.json'

const StoredRelease = z.object({
  sha256: z.string(),
  version: z.string(),
  platform: z.string(),
  bytes: z.int(),
  publishedAt: z.iso.datetime(),
  signatures: SignatureFile,
})
type StoredRelease = z.infer<typeof StoredRelease>

export interface ReleasesOptions {
  readonly folder: string
  /** Folder of what is being published, on the same file system. */
  readonly staging: string
  readonly uploads: Uploads
  readonly wallMs: () => number
}

/** The releases of the agent that operators have pushed, each in a folder named after the sha256 of its archive. */
export class Releases {
  readonly #options: ReleasesOptions

  constructor(options: ReleasesOptions) {
    this.#options = options
  }

  /** The newest first. */
  async list(): Promise<ServedRelease[]> {
    return (await this.#stored()).map(({ sha256, version, platform, bytes, signatures }) => {
      return { sha256, version, platform, bytes, signedBy: signersOf('software', sha256, signatures) }
    })
  }

  /** @throws BrimError MODEL_UNKNOWN */
  async find(sha256: string): Promise<{ archive: string; signatures: SignatureFile }> {
    const found = await this.#read(sha256)
    if (found) return { archive: join(this.#options.folder, sha256, archiveFile), signatures: found.signatures }
    throw new BrimError('MODEL_UNKNOWN', `this bridge has no release with the sha256 ${sha256.slice(0, 64)}`, {
      hint: 'GET /v1/releases lists its releases; "brim bundle push" uploads one',
    })
  }

  /**
   * Publishes a release once its archive is uploaded, or replaces the signatures of a published one.
   * @returns the archive if it must be uploaded first
   * @throws BrimError BUNDLE_CORRUPT, SIGNATURE_INVALID
   */
  async publish({ signatures, ...release }: BodyOf<typeof releaseOperations.publish>): Promise<Published> {
    const { sha256, bytes } = release
    requireFitting('software', sha256, signatures)
    const publishedAt = new Date(this.#options.wallMs()).toISOString()
    const to = join(this.#options.folder, sha256)
    const known = await this.#read(sha256)
    const described = `${JSON.stringify({ ...release, ...known, publishedAt, signatures } satisfies StoredRelease)}\n`
    if (known) {
      await writeFile(join(to, `${releaseFile}.new`), described, { flush: true })
      renamePrivate(join(to, `${releaseFile}.new`), join(to, releaseFile))
      return { missing: [] }
    }
    const missing = await this.#options.uploads.missing({ sha256, bytes })
    if (missing) return { missing: [missing] }
    await this.#requireHash(sha256)
    const staged = join(this.#options.staging, sha256)
    await writeFiles(staged, { [releaseFile]: described })
    await linkFile(this.#options.uploads.pathOf(sha256), join(staged, archiveFile))
    await rm(to, { recursive: true, force: true })
    publishFolder(staged, to)
    await this.#options.uploads.remove([sha256])
    for (const old of (await this.#stored()).slice(maxReleases))
      await rm(join(this.#options.folder, old.sha256), { recursive: true })
    return { missing: [] }
  }

  async #requireHash(sha256: string): Promise<void> {
    if ((await sha256OfFile(this.#options.uploads.pathOf(sha256))) === sha256) return
    await this.#options.uploads.remove([sha256])
    throw new BrimError('BUNDLE_CORRUPT', `the uploaded archive has another sha256 than ${sha256}`, { hint: 'push it again' })
  }

  async #stored(): Promise<StoredRelease[]> {
    const names = await readdir(this.#options.folder).catch(() => [])
    const found = await Promise.all(names.map((name) => this.#read(name)))
    return found.flatMap((release) => release ?? []).sort((a, b) => b.publishedAt.localeCompare(a.publishedAt))
  }

  async #read(sha256: string): Promise<StoredRelease | undefined> {
    if (!/^[0-9a-f]{64}$/.test(sha256)) return undefined
    const folder = join(this.#options.folder, sha256)
    const [text, archive] = await Promise.all([
      readFile(join(folder, releaseFile), 'utf8').catch(() => undefined),
      stat(join(folder, archiveFile)).catch(() => undefined),
    ])
    if (text === undefined || !archive) return undefined
    try {
      return StoredRelease.parse(JSON.parse(text))
    } catch {
      // Damaged: it can be published again.
      return undefined
    }
  }
}
