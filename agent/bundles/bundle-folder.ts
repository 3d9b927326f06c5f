import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { clockIsSet } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { readManifest, verifyHashes } from '../../core/model/bundle.ts'
import { devicePartsOf, filesOf } from '../../core/model/bundle-files.ts'
import { type Manifest, manifestFile } from '../../core/model/manifest.ts'

/** Installed bundles that nobody uses: more than this, and the oldest go. */
const mostUnused = 4
/** What was begun and not gone on with for so long is given up: its job has ended by then. */
const abandonedMs = 7 * 86_400_000
const isModelId = /^[0-9a-f]{64}$/

/** A bundle is told apart by its whole manifest: one model may come with other drafters, or another tokenizer. */
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

/** The one that another version takes the place of. */
const before = '-before'

/** The bundles in an agent's state folder: whole ones under their model id, those that are being fetched beside them. */
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

  /** Where a version is gathered; what is there of it already was left by an earlier attempt. */
  async partial({ modelId, manifestSha256 }: BundleVersion): Promise<string> {
    const folder = join(this.#partials, `${modelId}-${manifestSha256.slice(0, 16)}`)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // It is gone on with: files that only grow do not show on their folder.
    const now = new Date()
    await utimes(folder, now, now)
    return folder
  }

  /** What other versions have left there makes room. */
  async removeOtherPartials(version: BundleVersion): Promise<void> {
    const own = await this.partial(version)
    for (const name of await readdir(this.#partials))
      if (join(this.#partials, name) !== own) await rm(join(this.#partials, name), { recursive: true, force: true })
  }

  /** Where the power went while one version took another's place, the one before it has it again. For nobody but who holds the folder. */
  async recover(): Promise<void> {
    for (const name of await readdir(this.#partials).catch(() => [])) {
      if (!name.endsWith(before)) continue
      const [from, to] = [join(this.#partials, name), this.folderOf(name.slice(0, -before.length))]
      if (existsSync(to)) await rm(from, { recursive: true })
      else await rename(from, to)
    }
  }

  /** All that is installed, the newest first; what cannot be read is left out. */
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

  /** Whether that version is installed, every byte of it. */
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
   * A version that is complete takes its place, in one step where there was none of its model. What has the one before it
   * open goes on with that until it ends.
   * @returns its folder
   */
  async install(version: BundleVersion): Promise<string> {
    const [from, to] = [await this.partial(version), this.folderOf(version.modelId)]
    const old = join(this.#partials, version.modelId + before)
    await rm(old, { recursive: true, force: true })
    if (existsSync(to)) await rename(to, old)
    await rename(from, to)
    const folder = await open(this.#root)
    await folder.sync()
    await folder.close()
    await rm(old, { recursive: true, force: true })
    return to
  }

  /** @param inUse folders that stay, however old @returns the model ids that went */
  async removeUnused(inUse: readonly string[], nowMs: number): Promise<string[]> {
    for (const name of await readdir(this.#partials).catch(() => [])) {
      const path = join(this.#partials, name)
      const { mtimeMs } = await stat(path)
      // Of what was begun before anybody told the device the time, nobody knows how old it is.
      if (!clockIsSet(mtimeMs)) await utimes(path, nowMs / 1_000, nowMs / 1_000)
      else if (nowMs - mtimeMs > abandonedMs) await rm(path, { recursive: true })
    }
    const kept = new Set(inUse.map((folder) => resolve(folder)))
    const unused = (await this.list()).filter(({ folder }) => !kept.has(resolve(folder)))
    const old = unused.slice(mostUnused)
    for (const { folder } of old) await rm(folder, { recursive: true })
    return old.map(({ modelId }) => modelId)
  }

  /**
   * What an agent is told to use: a folder, or the beginning of the id of an installed model.
   * @throws BrimError CONFIG_INVALID
   */
  async resolve(named: string): Promise<string> {
    if (existsSync(named) || !/^[0-9a-f]{6,64}$/.test(named)) return named
    const found = (await this.list()).filter(({ modelId }) => modelId.startsWith(named))
    if (found.length === 1) return found[0]!.folder
    throw new BrimError(
      'CONFIG_INVALID',
      found.length === 0 ? `no installed model begins with ${named}` : `${found.length} installed models begin with ${named}`,
      { hint: 'name a folder, or an installed model by more of its id; brim job submit bundle.install installs one' },
    )
  }
}
