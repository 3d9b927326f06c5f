import { createHash } from 'node:crypto'
import { constants, copyFile, mkdir, open, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { renamePrivate } from '../../core/kit/base/private-file.ts'
import { readManifest, verifyHashes } from '../../core/model/bundle/bundle.ts'
import { type Manifest, manifestFile } from '../../core/model/bundle/manifest.ts'
import type { MissingFile } from '../../core/wire/protocol/http/uploads.ts'
import { type SignatureFile, signatureFile } from '../../core/wire/signing/signature.ts'
import { signaturesText } from '../../core/wire/signing/signature-file.ts'
import { linkFile, publishFolder, requireFitting, writeFiles } from './publishing.ts'
import type { ServedBundles } from './served-bundles.ts'
import type { Uploads } from './uploads.ts'

const isPublished = /^[0-9a-f]{64}-[0-9a-f]{16}$/

export interface PublishedBundlesOptions {
  readonly folder: string
  /** Folder of what is being published, on the same file system. */
  readonly staging: string
  readonly uploads: Uploads
  readonly served: ServedBundles
}

export interface PublishedBundle {
  readonly modelId: string
  readonly manifestSha256: string
  /** Files that must be uploaded first; empty: it is published. */
  readonly missing: MissingFile[]
}

/** The bundles that operators have pushed, each in a folder `<model id>-<start of the manifest's sha256>`. */
export class PublishedBundles {
  readonly #options: PublishedBundlesOptions

  constructor(options: PublishedBundlesOptions) {
    this.#options = options
  }

  /**
   * Publishes a bundle once all its files are there: uploaded, or in a bundle that this bridge has. It replaces the published
   * version of the same model.
   * @param text of manifest.json
   * @throws BrimError BUNDLE_INVALID, BUNDLE_CORRUPT, SIGNATURE_INVALID
   */
  async publish(text: string, signatures: SignatureFile | undefined): Promise<PublishedBundle> {
    const manifestSha256 = createHash('sha256').update(text).digest('hex')
    if (signatures) requireFitting('bundle', manifestSha256, signatures)
    const staged = join(this.#options.staging, manifestSha256)
    try {
      await writeFiles(staged, { [manifestFile]: text })
      const manifest = await readManifest(staged)
      if (manifest.files.some(({ path }) => path === manifestFile || path === signatureFile))
        throw new BrimError('BUNDLE_INVALID', `the manifest lists ${manifestFile} or ${signatureFile} as a file of the model`)
      const { modelId } = manifest
      const version = { modelId, manifestSha256 }
      const known = await this.#options.served.find(modelId).catch(() => undefined)
      const isThere = known?.manifestSha256 === manifestSha256
      const missing = isThere ? [] : await this.#missing(manifest)
      if (missing.length > 0) return { ...version, missing }
      if (isThere && !signatures) return { ...version, missing }
      // The bundle that the bridge itself serves belongs to the operator, and a service cannot write there: a copy is signed.
      if (isThere && signatures && dirname(known.folder) === this.#options.folder) await this.#sign(known.folder, signatures)
      else {
        const to = join(this.#options.folder, `${modelId}-${manifestSha256.slice(0, 16)}`)
        await rm(to, { recursive: true, force: true })
        for (const file of manifest.files) await this.#place(file, staged)
        if (signatures) await writeFile(join(staged, signatureFile), signaturesText(signatures), { flush: true })
        publishFolder(staged, to)
        await this.#options.uploads.remove(manifest.files.map(({ sha256 }) => sha256))
        await this.#removeOthers(modelId, to)
      }
      await this.#options.served.refresh()
      return { ...version, missing }
    } finally {
      await rm(staged, { recursive: true, force: true })
    }
  }

  async #missing({ files }: Manifest): Promise<MissingFile[]> {
    const missing: MissingFile[] = []
    const seen = new Set<string>()
    for (const { sha256, bytes } of files) {
      if (seen.has(sha256)) continue
      seen.add(sha256)
      const file = bytes === 0 ? undefined : await this.#options.uploads.missing({ sha256, bytes })
      if (file && this.#options.served.fileOf(sha256) === undefined) missing.push(file)
    }
    return missing
  }

  /** Puts a file into the folder, and verifies it there. */
  async #place(file: Manifest['files'][number], staged: string): Promise<void> {
    const { path, sha256, bytes } = file
    const to = join(staged, path)
    const known = this.#options.served.fileOf(sha256)
    if (bytes === 0) {
      await mkdir(dirname(to), { recursive: true, mode: 0o700 })
      await writeFile(to, '', { flush: true })
    } else if ((await this.#options.uploads.missing(file)) === undefined) await linkFile(this.#options.uploads.pathOf(sha256), to)
    else if (known !== undefined) {
      await mkdir(dirname(to), { recursive: true, mode: 0o700 })
      await copyFile(known, to, constants.COPYFILE_FICLONE)
      const copy = await open(to)
      await copy.sync().finally(() => copy.close())
    }
    await verifyHashes(staged, { files: [file] }).catch(async (error: unknown) => {
      await this.#options.uploads.remove([sha256])
      throw error
    })
  }

  /** Replaces the signatures of a published bundle, atomically. */
  async #sign(folder: string, signatures: SignatureFile): Promise<void> {
    const unfinished = join(folder, `${signatureFile}.new`)
    await writeFile(unfinished, signaturesText(signatures), { flush: true })
    renamePrivate(unfinished, join(folder, signatureFile))
  }

  /** Deletes what was published of a model before. Folders that operators have copied stay. */
  async #removeOthers(modelId: string, newest: string): Promise<void> {
    for (const name of await readdir(this.#options.folder)) {
      const path = join(this.#options.folder, name)
      if (isPublished.test(name) && name.startsWith(modelId) && path !== newest) await rm(path, { recursive: true })
    }
  }
}
