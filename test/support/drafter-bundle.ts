import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { drafterParts } from '../../core/model/bundle/manifest.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { fixtureDir } from '../oracle/fixtures.ts'

const shape = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
const tree = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 0, 0, 0]]

/** The tiny Llama with tokenizer and chat template, split after its first layer, with all drafters; `adapter` reads deep states. */
export async function buildDrafterBundle(dir: string): Promise<string> {
  const checkpoint = join(dir, 'with-drafters')
  const random = join(dir, 'random-drafters')
  await writeRandomCheckpoint(random, {
    config: tinyLlamaConfig,
    dtype: 'F16',
    seed: 7,
    adapter: { ...shape, features: true },
    adapterPaper: shape,
    medusa: { heads: 4, tree },
  })
  await cp(fixtureDir('llama'), checkpoint, { recursive: true })
  for (const name of drafterParts) await cp(join(random, name), join(checkpoint, name), { recursive: true })
  const out = join(dir, 'drafter-bundle')
  await buildBundle({ checkpoint, split: 1, format: 'fp32', name: 'tiny-llama', drafters: drafterParts, out })
  return out
}
