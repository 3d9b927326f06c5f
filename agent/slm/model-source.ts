import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { chainParts, readManifest } from '../../core/model/bundle/bundle.ts'
import { type Dims, type Manifest, manifestFile, type PartName } from '../../core/model/bundle/manifest.ts'

/** A small model that can be opened: a bundle without a split. */
export interface ModelSource {
  readonly name: string
  readonly modelId: string
  readonly folder: string
  /** Identifies the version. */
  readonly manifestSha256: string
  /** Memory of its weights, once it is open. */
  readonly bytes: number
  readonly dims: Dims
}

/** @throws BrimError BUNDLE_INVALID, also for a split bundle; BUNDLE_CORRUPT */
export async function readModelSource(folder: string): Promise<ModelSource> {
  const manifest = await readManifest(folder)
  const { card, modelId, split, dims } = manifest
  chainParts(manifest)
  if (split !== null)
    throw new BrimError('BUNDLE_INVALID', `${card.name} in ${folder} is a split model, which is no small model`, {
      hint: 'build the bundle without --split',
    })
  const manifestSha256 = await manifestHash(folder)
  return { name: card.name, modelId, folder, manifestSha256, bytes: weightBytes(manifest), dims }
}

/** sha256 of a bundle's manifest. */
export const manifestHash = async (folder: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(join(folder, manifestFile)))
    .digest('hex')

/** Memory of the weights of these parts. fp16 weights are expanded to fp32. */
export function weightBytes({ parts }: Manifest, names = Object.keys(parts) as PartName[]): number {
  const weights = names.flatMap((name) => parts[name]?.weights ?? [])
  const places = new Map(
    weights.map(({ file, offset, type, bytes }) => [`${file}:${offset}`, type === 'float16' ? 2 * bytes : bytes]),
  )
  return [...places.values()].reduce((sum, bytes) => sum + bytes, 0)
}
