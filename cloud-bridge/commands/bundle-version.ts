import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { manifestFile } from '../../core/model/bundle/manifest.ts'
import { bundleOperations } from '../../core/wire/protocol/http/bundles.ts'
import type { BridgeClient } from './bridge-client.ts'

/** The bundle in a folder, or the one that the bridge has of a model. @throws BrimError MODEL_UNKNOWN, BUNDLE_INVALID */
export async function versionOf(model: string, client: BridgeClient): Promise<{ modelId: string; manifestSha256: string }> {
  if (/^[0-9a-f]{64}$/.test(model)) {
    const { bundles } = (await client.call(bundleOperations.list, {})).value
    const served = bundles.find(({ modelId }) => modelId === model)
    if (served) return { modelId: model, manifestSha256: served.manifestSha256 }
    throw new BrimError('MODEL_UNKNOWN', `the bridge has no bundle of model ${model}`, {
      hint: 'give the folder of the bundle with --model: the device accepts only the manifest whose hash the job names',
    })
  }
  const { readManifest } = await import('../../core/model/bundle/bundle.ts')
  const { modelId } = await readManifest(model)
  const manifest = await readFile(join(model, manifestFile))
  return { modelId, manifestSha256: createHash('sha256').update(manifest).digest('hex') }
}
