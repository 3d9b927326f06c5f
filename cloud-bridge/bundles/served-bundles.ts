import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { type Manifest, manifestFile } from '../../core/model/bundle/manifest.ts'
import type { ServedBundle } from '../../core/wire/protocol/http/bundles.ts'
import { signatureFile } from '../../core/wire/signing/signature.ts'
import { readSignatures, signersOf } from '../../core/wire/signing/signature-file.ts'

export interface BundleOnDisk {
  readonly folder: string
  readonly manifest: Manifest
  readonly manifestSha256: string
  /** Public keys whose signatures fit the manifest. */
  readonly signedBy: readonly string[]
  /** When its manifest or its signatures were last modified before it was read. */
  readonly changedMs: number
}

export interface ServedBundlesOptions {
  /** Folders of the bundles that the bridge serves itself. */
  readonly own: readonly string[]
  /** Folder whose subfolders are bundles too. */
  readonly folder: string
}

/** The bundles that devices and operators can download. */
export interface ServedBundles {
  list(): Promise<ServedBundle[]>
  /** @throws BrimError MODEL_UNKNOWN */
  find(modelId: string): Promise<BundleOnDisk>
  /** A file on this bridge that a manifest lists with this hash. */
  fileOf(sha256: string): string | undefined
  /** Looks for bundles again: a folder was published or signed. */
  refresh(): Promise<void>
}

export function openServedBundles({ own, folder }: ServedBundlesOptions): ServedBundles {
  let known = new Map<string, BundleOnDisk>()
  /** Folder → what was read there, and when it was last modified then. */
  let read = new Map<string, { readonly changedMs: number; readonly found: BundleOnDisk | undefined }>()

  /** Reads a bundle only when it has changed: devices may ask for unknown models as often as they like. */
  async function readChanged(at: string): Promise<BundleOnDisk | undefined> {
    const changedMs = await lastChange(at)
    const before = read.get(at)
    if (changedMs === undefined) return undefined
    if (changedMs === before?.changedMs) return before.found
    const found = await readBundle(at, changedMs)
    read.set(at, { changedMs, found })
    return found
  }

  async function scan(): Promise<void> {
    const names = await readdir(folder).catch(() => [])
    const folders = [...own, ...names.map((name) => join(folder, name))]
    const found = await Promise.all(folders.map(readChanged))
    read = new Map([...read].filter(([at]) => folders.includes(at)))
    const served = found.slice(0, own.length)
    const others = found.slice(own.length).sort((a, b) => (a?.changedMs ?? 0) - (b?.changedMs ?? 0))
    const hashes = new Set(served.map((one) => one?.manifestSha256))
    const signedCopies = others.filter((one) => hashes.has(one?.manifestSha256))
    // Of the bundles of one model the last wins: the bridge's own or a copy of it that was signed, else the newest.
    known = new Map([...others, ...served, ...signedCopies].flatMap((one) => (one ? [[one.manifest.modelId, one] as const] : [])))
  }

  return {
    fileOf(sha256) {
      for (const { folder: at, manifest } of known.values()) {
        const file = manifest.files.find((each) => each.sha256 === sha256)
        if (file) return join(at, file.path)
      }
      return undefined
    },
    async refresh() {
      read = new Map()
      await scan()
    },
    async list() {
      await scan()
      return [...known.values()].map(summaryOf)
    },
    async find(modelId) {
      const before = known.get(modelId)
      if (before === undefined || (await lastChange(before.folder)) !== before.changedMs) await scan()
      const found = known.get(modelId)
      if (found) return found
      throw new BrimError('MODEL_UNKNOWN', `this bridge has no bundle of model ${modelId.slice(0, 64)}`, {
        hint: '"brim bundle list" lists its bundles; "brim bundle push" adds one',
      })
    },
  }
}

/** When the manifest or the signatures of a bundle were last modified; undefined: there is no manifest. */
async function lastChange(folder: string): Promise<number | undefined> {
  const [manifest, signatures] = await Promise.all(
    [manifestFile, signatureFile].map((name) => stat(join(folder, name)).catch(() => undefined)),
  )
  return manifest && Math.max(manifest.mtimeMs, signatures?.mtimeMs ?? 0)
}

async function readBundle(folder: string, changedMs: number): Promise<BundleOnDisk | undefined> {
  try {
    const path = join(folder, manifestFile)
    const manifestSha256 = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
    const signatures = await readSignatures(folder).catch(() => undefined)
    const signedBy = signatures ? signersOf('bundle', manifestSha256, signatures) : []
    return { folder, manifest: await readManifest(folder), manifestSha256, signedBy, changedMs }
  } catch {
    return undefined
  }
}

const summaryOf = ({ manifest, manifestSha256, signedBy }: BundleOnDisk): ServedBundle => ({
  modelId: manifest.modelId,
  manifestSha256,
  name: manifest.card.name,
  parts: Object.keys(manifest.parts),
  bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
  signedBy: [...signedBy],
})
