import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { concatStates, type States, toStates } from '../../../../core/wire/protocol/states.ts'
import { tinyLlamaConfig } from '../../../../lab/random-checkpoint.ts'
import { medusaLogits, readTensors, rowsOf } from '../../../support/plain-math.ts'
import { shared } from '../../../support/shared.ts'
import { largestDifference, workshop } from './models.ts'

const { hidden_size: width, vocab_size: vocab, rms_norm_eps: epsilon } = tinyLlamaConfig
const heads = 3
const tree = [[0], [1], [0, 0], [0, 2], [0, 0, 159]]

describe.each([
  ['that is separate', { ...tinyLlamaConfig, tie_word_embeddings: false }],
  ['that is the embedding', { ...tinyLlamaConfig, tie_word_embeddings: true }],
])('Medusa heads over a head %s', (_, config) => {
  const bench = shared(() => workshop(config, 'F32', { medusa: { heads, tree } }))
  const model = shared(() => bench.open({ format: 'fp32', split: 1, drafters: ['medusa'] }))

  /** [rows, heads, vocab] */
  function expected(deep: States): Float32Array {
    const llm = readTensors(join(bench.checkpoint, 'model.safetensors'))
    const medusa = readTensors(join(bench.checkpoint, 'medusa/medusa.safetensors'))
    const head = llm(config.tie_word_embeddings ? 'model.embed_tokens.weight' : 'lm_head.weight')
    const shared = { norm: llm('model.norm.weight')[0]!, head, epsilon }
    return Float32Array.from(rowsOf(deep).flatMap((row) => medusaLogits(medusa, shared, heads, row).flat()))
  }

  it('have a number of heads and a tree of guesses', () => {
    const medusa = model.medusa()
    expect(medusa.heads).toBe(heads)
    expect(medusa.tree).toEqual(tree)
  })

  it.each([0, 1, 2, 5])('return logits for each of %i rows and each head', async (rows) => {
    const logits = await model.medusa().guess(noise(rows, rows))
    expect(logits).toHaveLength(rows * heads * vocab)
    expect(largestDifference(logits, expected(noise(rows, rows)))).toBeLessThan(2e-5)
  })

  it('accept rows that exceed fp16', async () => {
    const loud = toStates(
      Float32Array.from({ length: width }, (_, i) => (i === 3 ? 2e5 : Math.cos(i))),
      width,
    )
    const deep = concatStates([noise(1, 1), loud, noise(2, 2)], width)
    expect(deep.wide?.index).toEqual([1])
    expect(largestDifference(await model.medusa().guess(deep), expected(deep))).toBeLessThan(2e-5)
  })

  it('return results that other guesses do not change', async () => {
    const deep = Array.from({ length: 4 }, (_, seed) => noise(1 + seed, seed))
    const logits = await Promise.all(deep.map((states) => model.medusa().guess(states)))
    for (const [at, states] of deep.entries()) expect(largestDifference(logits[at]!, expected(states))).toBeLessThan(2e-5)
  })

  it.each([
    ['fp16', 4, 1e-2],
    ['int4', 1, 0.3],
    ['int4', 4, 0.3],
  ] as const)('in %s at level %i are close to the exact ones, for one row or several', async (format, accuracyLevel, limit) => {
    const medusa = (await bench.open({ format, accuracyLevel, split: 1, drafters: ['medusa'] })).medusa()
    for (const rows of [1, 6]) {
      const want = expected(noise(rows, 3))
      const got = await medusa.guess(noise(rows, 3))
      const error = Math.hypot(...got.map((value, i) => value - want[i]!)) / Math.hypot(...want)
      expect(error).toBeGreaterThan(0)
      expect(error).toBeLessThan(limit)
    }
  })

  it('reject rows of inconsistent sizes', async () => {
    const medusa = model.medusa()
    expect(() => medusa.guess({ ...noise(2, 1), width: width / 2 })).toThrow(RangeError)
    expect(() => medusa.guess({ ...noise(2, 1), rows: 3 })).toThrow(RangeError)
  })

  it('are reported missing in a bundle without them, with a hint how to build one', async () => {
    const plain = await bench.open({ format: 'fp32', split: 1 })
    expect(() => plain.medusa()).toThrow(
      expect.objectContaining({ code: 'BUNDLE_INVALID', hint: expect.stringContaining('--drafters medusa') }),
    )
    expect(() => plain.part('adapter-paper')).toThrow(
      expect.objectContaining({ code: 'BUNDLE_INVALID', hint: expect.stringContaining('--drafters adapter-paper') }),
    )
  })
})

/** Rows of about unit size, the same for the same seed. */
function noise(rows: number, seed: number): States {
  return toStates(
    Float32Array.from({ length: rows * width }, (_, i) => 2 * Math.sin(12.9898 * (i + 1) + 78.233 * seed)),
    width,
  )
}
