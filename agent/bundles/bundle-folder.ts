import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { clockIsSet } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { makeFolder, syncNames, syncToDisk } from '../../core/kit/base/private-file.ts'
import { readManifest, verifyHashes } from '../../core/model/bundle/bundle.ts'
import { devicePartsOf, filesOf } from '../../core/model/bundle/bundle-files.ts'
import { type Manifest, manifestFile } from '../../core/model/bundle/manifest.ts'

/** Retained bundles that are not in use. */
const maxUnused = 4
/** Age at which a partial download is deleted. Its job has ended by then. */
const abandonedMs = 7 * 86_400_000
const isModelId = /^[0-9a-f]{64}$/

/** The manifest identifies a version: one model may come with different drafters or tokenizers. */
export interface BundleVersion {
  readonly modelId: string
  /** sha256 of manifest.json. */
  readonly manifestSha256: string
}

export interface InstalledBundle {
  readonly modelId: string
  readonly folder: string
  readonly manifest: Manifest
}

/** Suffix of the version that is being replaced. */
const replaced = '-before'

/** The bundles in an agent's state folder: installed ones under their model id, partial downloads beside them. */
export class BundleFolder {
  readonly #root: string
  readonly #partials: string

  constructor(stateDir: string) {
    this.#root = join(stateDir, 'bundles')
    this.#partials = join(this.#root, '.partial')
  }

  folderOf(modelId: string): string {
    return join(this.#root, modelId)
  }

  /** The folder of a version's download, with what an earlier attempt has downloaded. */
  async partial({ modelId, manifestSha256 }: BundleVersion): Promise<string> {
    const folder = join(this.#partials, `${modelId}-${manifestSha256.slice(0, 16)}`)
    makeFolder(folder)
    // Marks the download as active: a growing file does not change the time of its folder.
    const now = new Date()
    await utimes(folder, now, now)
    return folder
  }

  /** Deletes the partial downloads of other versions, to free space. */
  async removeOtherPartials(version: BundleVersion): Promise<void> {
    const own = await this.partial(version)
    for (const name of await readdir(this.#partials))
      if (join(this.#partials, name) !== own) await rm(join(this.#partials, name), { recursive: true, force: true })
  }

  /** Restores the replaced version after a power cut during `install`. Only the process that has locked the folder may call it. */
  async recover(): Promise<void> {
    for (const name of await readdir(this.#partials).catch(() => [])) {
      if (!name.endsWith(replaced)) continue
      const [from, to] = [join(this.#partials, name), this.folderOf(name.slice(0, -replaced.length))]
      if (existsSync(to)) await rm(from, { recursive: true })
      else await rename(from, to)
    }
  }

  /** The installed bundles with a readable manifest, the newest first. */
  async list(): Promise<InstalledBundle[]> {
    const names = (await readdir(this.#root).catch(() => [])).filter((name) => isModelId.test(name))
    const found = await Promise.all(
      names.map(async (modelId) => {
        const folder = this.folderOf(modelId)
        const manifest = await readManifest(folder).catch(() => undefined)
        return manifest ? [{ modelId, folder, manifest, atMs: (await stat(folder)).mtimeMs }] : []
      }),
    )
    return found.flat().sort((a, b) => b.atMs - a.atMs)
  }

  /** Whether the version is installed and all its hashes match. */
  async isIntact({ modelId, manifestSha256 }: BundleVersion, signal: AbortSignal): Promise<boolean> {
    const folder = this.folderOf(modelId)
    const json = await readFile(join(folder, manifestFile)).catch(() => undefined)
    if (!json || createHash('sha256').update(json).digest('hex') !== manifestSha256) return false
    try {
      const manifest = await readManifest(folder)
      await verifyHashes(folder, { files: filesOf(manifest, devicePartsOf(manifest)) }, { signal })
      return true
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof BrimError) return false
      throw error
    }
  }

  /**
   * Installs a complete download; in one step if no version of the model is installed. Processes that have the replaced
   * version open continue with it.
   * @returns its folder
   */
  async install(version: BundleVersion): Promise<string> {
    const [from, to] = [await this.partial(version), this.folderOf(version.modelId)]
    const old = join(this.#partials, version.modelId + replaced)
    await rm(old, { recursive: true, force: true })
    if (existsSync(to)) await rename(to, old)
    syncNames(from)
    await rename(from, to)
    syncToDisk(this.#root)
    await rm(old, { recursive: true, force: true })
    return to
  }

  /** Deletes old partial downloads and unused bundles. @param inUse folders to retain @returns the deleted model ids */
  async removeUnused(inUse: readonly string[], nowMs: number): Promise<string[]> {
    for (const name of await readdir(this.#partials).catch(() => [])) {
      const path = join(this.#partials, name)
      const { mtimeMs } = await stat(path)
      // Begun while the device's clock was not set: its age is unknown, so it counts from now.
      if (!clockIsSet(mtimeMs)) await utimes(path, nowMs / 1_000, nowMs / 1_000)
      else if (nowMs - mtimeMs > abandonedMs) await rm(path, { recursive: true })
    }
    const used = new Set(inUse.map((folder) => resolve(folder)))
    const unused = (await this.list()).filter(({ folder }) => !used.has(resolve(folder)))
    const old = unused.slice(maxUnused)
    for (const { folder } of old) await rm(folder, { recursive: true })
    return old.map(({ modelId }) => modelId)
  }

  /**
   * The folder of a configured bundle: a path, or the first characters of the id of an installed model.
   * @throws BrimError CONFIG_INVALID
   */
  async resolve(named: string): Promise<string> {
    if (existsSync(named) || !/^[0-9a-f]{6,64}$/.test(named)) return named
    const found = (await this.list()).filter(({ modelId }) => modelId.startsWith(named))
    if (found.length === 1) return found[0]!.folder
    throw new BrimError(
      'CONFIG_INVALID',
      found.length === 0
        ? `no installed model has an id that begins with ${named}`
        : `${found.length} installed models have ids that begin with ${named}`,
      { hint: 'give a folder or more characters of the id; "brim job submit bundle.install" installs a model' },
    )
  }
}
