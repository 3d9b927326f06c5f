import { createHash } from 'node:crypto'
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readManifest, verifyHashes } from '../../../../core/model/bundle/bundle.ts'
import type { Manifest } from '../../../../core/model/bundle/manifest.ts'
import { fresh } from '../../../support/shared.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

const bundle = fresh(tinyBundle)

const path = (file: string) => join(bundle.path, file)
const invalid = (message: RegExp) => ({ name: 'BrimError', code: 'BUNDLE_INVALID', message: expect.stringMatching(message) })
const corrupt = (message: RegExp) => ({ name: 'BrimError', code: 'BUNDLE_CORRUPT', message: expect.stringMatching(message) })

function edit(change: (manifest: Manifest) => void): void {
  const manifest: Manifest = JSON.parse(readFileSync(path('manifest.json'), 'utf8'))
  change(manifest)
  writeFileSync(path('manifest.json'), JSON.stringify(manifest))
}

describe('a manifest', () => {
  it('is reported missing in a folder without one and in a folder that does not exist', async () => {
    mkdirSync(path('empty'))
    await expect(readManifest(path('empty'))).rejects.toMatchObject(invalid(/is not a bundle/))
    await expect(readManifest(path('nowhere'))).rejects.toMatchObject(invalid(/nowhere is not a bundle/))
  })

  it('is rejected if it is not JSON or does not match the schema', async () => {
    writeFileSync(path('manifest.json'), '{"schema": 1')
    await expect(readManifest(bundle.path)).rejects.toMatchObject(invalid(/is not a JSON object/))
    writeFileSync(path('manifest.json'), '{"schema": 1, "card": {}}')
    await expect(readManifest(bundle.path)).rejects.toMatchObject(invalid(/is not a valid manifest/))
  })

  it('of a newer schema is rejected with the hint to update', async () => {
    writeFileSync(path('manifest.json'), '{"schema": 4}')
    await expect(readManifest(bundle.path)).rejects.toMatchObject({
      ...invalid(/has schema 4/),
      hint: expect.stringMatching(/update Brim/),
    })
  })

  it('is rejected if a path leads out of the bundle', async () => {
    for (const outside of ['../weights', '/etc/passwd', 'a/../../b']) {
      edit(({ parts }) => Object.assign(parts.input ?? {}, { golden: outside }))
      await expect(readManifest(bundle.path)).rejects.toMatchObject(invalid(/not a valid manifest/))
    }
  })

  it('is rejected if it does not list a file of a part, or the file is too short for a weight', async () => {
    edit(({ files }) =>
      files.splice(
        files.findIndex((file) => file.path === 'middle.8.onnx'),
        1,
      ),
    )
    await expect(readManifest(bundle.path)).rejects.toMatchObject(
      invalid(/part middle needs middle\.8\.onnx, which is not listed/),
    )
    edit(({ files }) => files.push({ path: 'middle.8.onnx', bytes: 1, sha256: '0'.repeat(64) }))
    edit(({ parts }) => Object.assign(parts.output?.weights.at(-1) ?? {}, { offset: 1e9 }))
    await expect(readManifest(bundle.path)).rejects.toMatchObject(
      invalid(/part output needs output\.weights, which is too short/),
    )
  })
})

describe('the model id', () => {
  it('must match the listed files, so that changed weights are not taken for the same model', async () => {
    const weights = readFileSync(path('middle.weights'))
    weights[weights.length >> 1] = (weights[weights.length >> 1] ?? 0) ^ 1
    writeFileSync(path('middle.weights'), weights)
    edit(({ files }) => {
      const record = files.find((file) => file.path === 'middle.weights')
      Object.assign(record ?? {}, { sha256: createHash('sha256').update(weights).digest('hex') })
    })
    await expect(readManifest(bundle.path)).rejects.toMatchObject(invalid(/the model id does not match the listed files/))
  })
})

describe('the hashes of a bundle', () => {
  it('match after a build', async () => {
    const shares: number[] = []
    await verifyHashes(bundle.path, bundle.manifest, { onProgress: (done, total) => shares.push(done / total) })
    expect(shares.at(-1)).toBe(1)
  })

  it('detect a flipped bit and name the file', async () => {
    const weights = readFileSync(path('middle.weights'))
    weights[weights.length >> 1] = (weights[weights.length >> 1] ?? 0) ^ 1
    writeFileSync(path('middle.weights'), weights)
    await expect(verifyHashes(bundle.path, bundle.manifest)).rejects.toMatchObject(corrupt(/middle\.weights was changed/))
  })

  it('detect a missing, a truncated and an extended file', async () => {
    const { bytes } = bundle.manifest.files.find((file) => file.path === 'input.weights') ?? { bytes: 0 }
    appendFileSync(path('input.weights'), 'x')
    await expect(verifyHashes(bundle.path, bundle.manifest)).rejects.toMatchObject(
      corrupt(/input\.weights has \d+ bytes, the manifest lists/),
    )
    writeFileSync(path('input.weights'), readFileSync(path('input.weights')).subarray(0, bytes - 1))
    await expect(verifyHashes(bundle.path, bundle.manifest)).rejects.toMatchObject(corrupt(/input\.weights has/))
    rmSync(path('input.weights'))
    await expect(verifyHashes(bundle.path, bundle.manifest)).rejects.toMatchObject(corrupt(/input\.weights is missing/))
  })

  it('are not checked further after an abort', async () => {
    const reason = new Error('Ctrl-C')
    await expect(verifyHashes(bundle.path, bundle.manifest, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })
})
