import { join } from 'node:path'
import { buildBundle } from '../../core/model/bundle/build.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { tempDir } from './temp-dir.ts'

export interface TinyBundle extends Disposable {
  readonly path: string
  readonly manifest: Manifest
}

/** A few random layers with real graphs and weights, split after the first; `adapter`: with a random adapter. */
export async function tinyBundle(options: { seed?: number; adapter?: boolean } = {}): Promise<TinyBundle> {
  const dir = tempDir()
  const checkpoint = join(dir.path, 'checkpoint')
  const path = join(dir.path, 'bundle')
  const adapter = options.adapter ? { adapter: { split: 1, heads: 4, kvHeads: 2, headDim: 16 } } : {}
  await writeRandomCheckpoint(checkpoint, { config: tinyLlamaConfig, dtype: 'F16', seed: options.seed ?? 1, ...adapter })
  const { manifest } = await buildBundle({ checkpoint, out: path, split: 1, format: 'fp32', name: 'tiny' })
  return { path, manifest, [Symbol.dispose]: dir[Symbol.dispose] }
}
