import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../../../core/model/engine/open-model.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { largestDifference, someIds } from './models.ts'

/** Built by Brim 0.1.0 from a random checkpoint of two layers, whole, in int4 at accuracy level 1. */
const folder = fileURLToPath(new URL('../../../fixtures/bundle-schema-2', import.meta.url))
const logitsFile = new URL('../../../fixtures/bundle-schema-2.logits', import.meta.url)

let runtime: Runtime
let older: LoadedModel
/**
 * What a bundle of schema 3 from the same checkpoint computed, when Brim still rounded weights as 0.1.0 did: fp32, little-endian.
 * [64 positions of someIds, vocab]
 */
let expected: Float32Array
beforeAll(async () => {
  runtime = await openRuntime()
  older = await openModel(runtime, folder, { parts: 'chain', threads: 1 })
  const bytes = readFileSync(logitsFile)
  expected = Float32Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at))
})
afterAll(async () => {
  await older.release()
  await runtime.close()
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
  const { vocab, contextLimit } = older.manifest.dims
  expect(expected).toHaveLength(contextLimit * vocab)
  const steps = await logitsOf(older.chain({ cuts: 'full' }), streams)
  expect(steps).toHaveLength(streams[0]!.length)
  for (const [step, logits] of steps.entries()) {
    // All streams have the same tokens, so that a row is known by its position.
    const rows = streams.flatMap((sizes) => {
      const from = sizes.slice(0, step).reduce((sum, size) => sum + size, 0)
      return [...expected.subarray(from * vocab, (from + sizes[step]!) * vocab)]
    })
    expect(largestDifference(logits, Float32Array.from(rows))).toBeLessThan(1e-4)
  }
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
