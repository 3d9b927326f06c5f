import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { BrimError } from '../../core/base/errors.ts'
import { readManifest } from '../../core/model/bundle.ts'
import { devicePartsOf, partsOf } from '../../core/model/bundle-files.ts'
import { type Manifest, manifestFile } from '../../core/model/manifest.ts'
import { bundleOperations, type ServedBundle } from '../../core/protocol/http/bundles.ts'
import { noSuchPath } from '../http/errors.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

interface BundleOnDisk {
  readonly folder: string
  readonly manifest: Manifest
  readonly manifestSha256: string
  /** Modification time of its manifest when it was read. */
  readonly mtimeMs: number
}

export interface ServedBundlesOptions {
  /** Folder of the bundle that the bridge serves itself; undefined: none. */
  readonly bundle: string | undefined
  /** Folder whose subfolders are bundles too. */
  readonly folder: string | undefined
}

/** The bundles that devices and operators can download. */
export interface ServedBundles {
  list(): Promise<ServedBundle[]>
  /** @throws BrimError MODEL_UNKNOWN */
  find(modelId: string): Promise<BundleOnDisk>
}

export function openServedBundles({ bundle, folder }: ServedBundlesOptions): ServedBundles {
  let known = new Map<string, BundleOnDisk>()
  /** Folder → what was read there, and when its manifest was modified. */
  let read = new Map<string, { readonly mtimeMs: number; readonly found: BundleOnDisk | undefined }>()

  /** Reads a manifest only when it has changed: devices may ask for unknown models as often as they like. */
  async function readChanged(at: string): Promise<BundleOnDisk | undefined> {
    const file = await stat(join(at, manifestFile)).catch(() => undefined)
    const before = read.get(at)
    if (!file || file.mtimeMs === before?.mtimeMs) return file && before?.found
    const found = await readBundle(at, file.mtimeMs)
    read.set(at, { mtimeMs: file.mtimeMs, found })
    return found
  }

  async function scan(): Promise<void> {
    const names = folder === undefined ? [] : await readdir(folder).catch(() => [])
    const folders = [...(bundle === undefined ? [] : [bundle]), ...names.map((name) => join(folder ?? '', name))]
    const found = await Promise.all(folders.map(readChanged))
    read = new Map([...read].filter(([at]) => folders.includes(at)))
    // Reversed, so that of two bundles of one model the first wins: the bridge's own.
    known = new Map(found.flatMap((one) => (one ? [[one.manifest.modelId, one] as const] : [])).reverse())
  }

  return {
    async list() {
      await scan()
      return [...known.values()].map(summaryOf)
    },
    async find(modelId) {
      const before = known.get(modelId)
      const now = before && (await stat(join(before.folder, manifestFile)).catch(() => undefined))
      if (now === undefined || now.mtimeMs !== before?.mtimeMs) await scan()
      const found = known.get(modelId)
      if (found) return found
      throw new BrimError('MODEL_UNKNOWN', `this bridge has no bundle of model ${modelId.slice(0, 64)}`, {
        hint: 'GET /v1/bundles lists its bundles; brim bridge run --bundles adds a folder of them',
      })
    },
  }
}

/**
 * `/v1/bundles…`: the list, and single files. Only files that a manifest lists are sent, and to devices only those that a
 * device runs: the middle part, which is most of the model, stays at the bridge.
 */
export function bundleRoutes(bundles: ServedBundles): Routes {
  return (router) => {
    router.serve(bundleOperations.list, async () => ({ bundles: await bundles.list() }))
    router.serve(bundleOperations.file, async ({ params: { modelId, '*': file }, headers, caller }) => {
      const { folder: at, manifest } = await bundles.find(modelId)
      if (file !== manifestFile && !manifest.files.some(({ path }) => path === file)) throw noSuchPath
      if (caller.device !== undefined && !isForDevices(manifest, file)) throw onlyForBridges
      return fileResponse(join(at, file), headers.range)
    })
  }
}

/** Whether a part that runs on devices needs this file, or all parts do. */
function isForDevices(manifest: Manifest, file: string): boolean {
  const parts = partsOf(manifest, file)
  return parts.length === 0 || parts.some((part) => devicePartsOf(manifest).includes(part))
}

const onlyForBridges = new BrimError('FORBIDDEN', 'devices do not get the files of the middle part, which runs at the bridge', {
  hint: 'an API key with the role viewer or above downloads whole bundles',
})

async function readBundle(folder: string, mtimeMs: number): Promise<BundleOnDisk | undefined> {
  try {
    const path = join(folder, manifestFile)
    const manifestSha256 = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
    return { folder, manifest: await readManifest(folder), manifestSha256, mtimeMs }
  } catch {
    return undefined
  }
}

const summaryOf = ({ manifest, manifestSha256 }: BundleOnDisk): ServedBundle => ({
  modelId: manifest.modelId,
  manifestSha256,
  name: manifest.card.name,
  parts: Object.keys(manifest.parts),
  bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
})

/** @param range of the request; only `bytes=<n>-` is understood: it resumes a download */
async function fileResponse(path: string, range = ''): Promise<StreamResponse> {
  const { size } = await stat(path)
  const [, from] = /^bytes=(\d{1,15})-$/.exec(range) ?? []
  const start = from === undefined ? 0 : Number(from)
  const head = { 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes', 'cache-control': 'no-store' }
  return new StreamResponse((response) => {
    if (start >= size && start > 0) return void response.writeHead(416, { ...head, 'content-range': `bytes */${size}` }).end()
    const partial = from === undefined ? {} : { 'content-range': `bytes ${start}-${size - 1}/${size}` }
    response.writeHead(from === undefined ? 200 : 206, { ...head, 'content-length': size - start, ...partial })
    // A client that disconnects resumes later.
    pipeline(createReadStream(path, { start }), response).catch(() => response.destroy())
  })
}
