import { join } from 'node:path'
import { buildBundle } from '../../core/model/build.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { tempDir } from './temp-dir.ts'

export interface TinyBundle extends Disposable {
  readonly path: string
  readonly manifest: Manifest
}

/** A split bundle of a few random layers with real graphs and weights, in a temporary folder. */
export async function tinyBundle(options: { seed?: number; split?: number } = {}): Promise<TinyBundle> {
  const dir = tempDir()
  const checkpoint = join(dir.path, 'checkpoint')
  const path = join(dir.path, 'bundle')
  await writeRandomCheckpoint(checkpoint, { config: tinyLlamaConfig, dtype: 'F16', seed: options.seed ?? 1 })
  const { manifest } = await buildBundle({ checkpoint, out: path, split: options.split ?? 1, format: 'fp32', name: 'tiny' })
  return { path, manifest, [Symbol.dispose]: () => dir[Symbol.dispose]() }
}
