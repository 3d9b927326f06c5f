import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { noSuchPath } from '../../core/answer/api/http-errors.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { devicePartsOf, partsOf } from '../../core/model/bundle/bundle-files.ts'
import { type Manifest, manifestFile } from '../../core/model/bundle/manifest.ts'
import { bundleOperations } from '../../core/wire/protocol/http/bundles.ts'
import { releaseOperations } from '../../core/wire/protocol/http/releases.ts'
import { uploadOperations } from '../../core/wire/protocol/http/uploads.ts'
import { signatureFile } from '../../core/wire/signing/signature.ts'
import type { BundleStore } from '../bundles/bundle-store.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

/**
 * `/v1/bundles…`: the list, and single files. Only files that a manifest lists are sent, and to devices only those that a
 * device runs: the middle part, which is most of the model, stays at the bridge.
 */
export function bundleRoutes({ served, publishBundle, uploads }: BundleStore): Routes {
  return (router) => {
    router.serve(bundleOperations.list, async () => ({ bundles: await served.list() }))
    router.serve(bundleOperations.file, async ({ params: { modelId, '*': file }, headers, caller }) => {
      const { folder: at, manifest, signedBy } = await served.find(modelId)
      if (
        file === signatureFile
          ? signedBy.length === 0
          : file !== manifestFile && !manifest.files.some(({ path }) => path === file)
      )
        throw noSuchPath()
      if (caller.device !== undefined && !isForDevices(manifest, file)) throw onlyForBridges
      return fileResponse(join(at, file), headers.range)
    })
    router.serve(bundleOperations.publish, async ({ body: { manifest, signatures }, caller }) => {
      const { missing, ...bundle } = await publishBundle(manifest, signatures)
      if (missing.length === 0) caller.auditAs('bundle.publish', bundle.modelId, { manifestSha256: bundle.manifestSha256 })
      return { missing }
    })
    router.serve(uploadOperations.append, async ({ params: { sha256 }, query: { from }, reply }) => {
      if (!/^[0-9a-f]{64}$/.test(sha256)) throw new BrimError('REQUEST_INVALID', 'an upload is named by the sha256 of its file')
      return { bytes: await uploads.append(sha256, from, reply.request.raw) }
    })
  }
}

/** `/v1/releases…`: releases of the agent's software. */
export function releaseRoutes({ releases, publishRelease }: BundleStore): Routes {
  return (router) => {
    router.serve(releaseOperations.list, async () => ({ releases: await releases.list() }))
    router.serve(releaseOperations.archive, async ({ params: { sha256 }, headers }) =>
      fileResponse((await releases.find(sha256)).archive, headers.range),
    )
    router.serve(releaseOperations.signature, async ({ params: { sha256 } }) => (await releases.find(sha256)).signatures)
    router.serve(releaseOperations.publish, async ({ body, caller }) => {
      const published = await publishRelease(body)
      const { sha256, version, platform } = body
      if (published.missing.length === 0) caller.auditAs('release.publish', version, { sha256, platform })
      return published
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
