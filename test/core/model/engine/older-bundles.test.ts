import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../../../core/model/engine/open-model.ts'
import { tinyLlamaConfig } from '../../../../lab/random-checkpoint.ts'
import { largestDifference, someIds, type Workshop, workshop } from './models.ts'

/** Built by Brim 0.1.0 from the checkpoint of `workshop`, whole, in int4 at accuracy level 1. */
const folder = fileURLToPath(new URL('../../../fixtures/bundle-schema-2', import.meta.url))

let bench: Workshop
let older: LoadedModel
let chains: Chain[]
beforeAll(async () => {
  bench = await workshop({ ...tinyLlamaConfig, num_hidden_layers: 2, max_position_embeddings: 64 })
  older = await openModel(bench.runtime, folder, { parts: 'chain', threads: 1 })
  const today = await bench.open({ format: 'int4', accuracyLevel: 1 })
  chains = [older, today].map((model) => model.chain({ cuts: 'full' }))
})
afterAll(async () => {
  await older.release()
  await bench[Symbol.asyncDispose]()
})

it.each([
  ['a prompt and tokens up to the end of the context', [[61, 1, 1, 1]]],
  [
    'single rows of several streams',
    [
      [7, 1],
      [12, 1],
      [30, 1],
    ],
  ],
  [
    'rows of any number beside each other',
    [
      [5, 4],
      [9, 3],
    ],
  ],
])('a bundle of schema 2 computes what one of today does: %s', async (_, streams) => {
  expect(older.manifest.schema).toBe(2)
  const [expected, results] = await Promise.all(chains.toReversed().map((chain) => logitsOf(chain, streams)))
  expect(results).toHaveLength(expected!.length)
  for (const [step, logits] of results!.entries()) expect(largestDifference(logits, expected![step]!)).toBeLessThan(1e-4)
})

/** @param streams the sizes of each stream's steps. @returns the logits of each step */
async function logitsOf(chain: Chain, streams: readonly (readonly number[])[]): Promise<Float32Array[]> {
  const ids = someIds(chain.manifest, 64)
  const sequences = streams.map(() => chain.createSequence())
  const results: Float32Array[] = []
  for (let step = 0; step < streams[0]!.length; step++) {
    const items = sequences.map((sequence, stream) => {
      const from = sequence.length
      return { sequence, ids: ids.slice(from, from + streams[stream]![step]!), select: 'all' as const }
    })
    results.push((await chain.step(items)).slice())
  }
  for (const sequence of sequences) sequence.release()
  return results
}
