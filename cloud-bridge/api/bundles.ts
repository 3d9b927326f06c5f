import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { BrimError } from '../../core/base/errors.ts'
import { readManifest } from '../../core/model/bundle.ts'
import { type Manifest, manifestFile } from '../../core/model/manifest.ts'
import { bundlesPath } from '../../core/protocol/jobs.ts'
import type { Handler } from '../http/http-server.ts'
import { answer, noSuchPath } from '../http/json.ts'

interface ServedBundle {
  readonly folder: string
  readonly manifest: Manifest
  readonly manifestSha256: string
  /** Of its manifest when it was read. */
  readonly mtimeMs: number
}

export interface BundlesHttpOptions {
  /** Of the bridge itself. */
  readonly bundle: string
  /** Its subfolders are bundles too. */
  readonly folder: string | undefined
}

/**
 * `GET /v1/bundles`: what there is; `/v1/bundles/<modelId>/<file>`: one of its files, also from a byte on. Only what a manifest
 * lists is served.
 */
export function createBundlesHttp({ bundle, folder }: BundlesHttpOptions): Handler {
  let known = new Map<string, ServedBundle>()

  async function scan(): Promise<void> {
    const names = folder === undefined ? [] : await readdir(folder).catch(() => [])
    const folders = [bundle, ...names.map((name) => join(folder ?? '', name))]
    const found = await Promise.all(folders.map((path) => readServed(path)))
    // Of two with one model the one named first: the bridge's own.
    known = new Map(found.flatMap((one) => (one ? [[one.manifest.modelId, one] as const] : [])).reverse())
  }

  async function find(modelId: string): Promise<ServedBundle> {
    const before = known.get(modelId)
    const now = before && (await stat(join(before.folder, manifestFile)).catch(() => undefined))
    if (now === undefined || now.mtimeMs !== before?.mtimeMs) await scan()
    const found = known.get(modelId)
    if (found) return found
    throw new BrimError('MODEL_UNKNOWN', `no bundle of model ${modelId.slice(0, 64)} is served here`, {
      hint: 'GET /v1/bundles lists them; brim bridge run --bundles names a folder of more',
    })
  }

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'GET') throw noSuchPath
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const [modelId, ...path] = pathname.slice(bundlesPath.length).split('/').slice(1)
    if (modelId === undefined) {
      await scan()
      return answer(response, 200, { bundles: [...known.values()].map(summaryOf) })
    }
    const { folder: at, manifest } = await find(modelId)
    const file = path.join('/')
    if (file !== manifestFile && !manifest.files.some((listed) => listed.path === file)) throw noSuchPath
    await send(join(at, file), request, response)
  }

  return {
    handle: route,
    needs: () => 'fetch',
  }
}

async function readServed(folder: string): Promise<ServedBundle | undefined> {
  try {
    const path = join(folder, manifestFile)
    const { mtimeMs } = await stat(path)
    const manifestSha256 = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
    return { folder, manifest: await readManifest(folder), manifestSha256, mtimeMs }
  } catch {
    return undefined
  }
}

const summaryOf = ({ manifest, manifestSha256 }: ServedBundle) => ({
  modelId: manifest.modelId,
  manifestSha256,
  name: manifest.card.name,
  parts: Object.keys(manifest.parts),
  bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
})

async function send(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { size } = await stat(path)
  const [, wanted] = /^bytes=(\d{1,15})-$/.exec(request.headers.range ?? '') ?? []
  const start = wanted === undefined ? 0 : Number(wanted)
  const head = { 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes', 'cache-control': 'no-store' }
  if (start >= size && start > 0) {
    response.writeHead(416, { ...head, 'content-range': `bytes */${size}` })
    return void response.end()
  }
  const range = wanted === undefined ? {} : { 'content-range': `bytes ${start}-${size - 1}/${size}` }
  response.writeHead(wanted === undefined ? 200 : 206, { ...head, 'content-length': size - start, ...range })
  // Who goes away in the middle comes back for the rest.
  await pipeline(createReadStream(path, { start }), response).catch(() => response.destroy())
}
