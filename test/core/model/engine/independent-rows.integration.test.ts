import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Part, Sequence } from '../../../../core/model/engine/contract.ts'
import { openModel } from '../../../../core/model/engine/open-model.ts'
import { concatStates, type States, sliceStates } from '../../../../core/wire/protocol/states.ts'
import { decodeAlone, stepTogether } from '../../../../lab/bench/engine/company.ts'
import { tinyLlamaConfig } from '../../../../lab/random-checkpoint.ts'
import { quantiseCheckpoint } from '../../../support/group-quants.ts'
import { randomStates } from '../../../support/random-states.ts'
import { someIds, type Workshop, workshop } from './models.ts'

/** Longer than one tile of keys of the library's attention at a head size of 256, and than several tiles of queries at 32. */
const length = 150
const contextLimit = 160

const arrangements = [
  ['the whole model', {}, {}],
  ['the parts, rounded at the cuts', { split: 1 }, {}],
  ['the parts, two threads', { split: 1 }, { threads: 2 }],
] as const

/** Bit for bit: the promise of the reference, which computes one row per step. */
describe.each([
  [32, 4],
  [64, 2],
  [256, 2],
])('with heads of %i', (headDim, heads) => {
  let bench: Workshop
  beforeAll(async () => {
    bench = await workshop({
      ...tinyLlamaConfig,
      num_hidden_layers: 3,
      num_attention_heads: heads,
      num_key_value_heads: heads / 2,
      head_dim: headDim,
      max_position_embeddings: contextLimit,
    })
  })
  afterAll(() => bench[Symbol.asyncDispose]())

  describe.each([
    ['fp32', { format: 'fp32' }],
    ['fp16 weights', { format: 'fp16' }],
    ['int4 at accuracy level 1', { format: 'int4', accuracyLevel: 1 }],
    ['int8 at accuracy level 4', { format: 'int8', accuracyLevel: 4 }],
  ] as const)('%s', (_, format) => {
    it.each(arrangements)('%s: rows depend neither on the size of a step nor on its other streams', (_name, split, options) =>
      expectIndependentRows(bench, { ...format, ...split }, options),
    )
  })

  // At level 1 the library expands int8, and with several threads sums narrow matrices in an order that depends on their share.
  it('int8 at accuracy level 1: rows depend neither on the size of a step nor on its other streams on one thread', () =>
    expectIndependentRows(bench, { format: 'int8', accuracyLevel: 1, split: 1 }, {}))

  it('the last position of the context has the bits of a longer step', async () => {
    const chain = (await bench.open({ format: 'fp32' })).chain({ cuts: 'half' })
    const ids = someIds(chain.manifest, contextLimit)
    const sequence = chain.createSequence()
    const { vocab } = chain.manifest.dims
    const last = (await chain.step([{ sequence, ids, select: 'last' }])).slice()
    sequence.truncate(contextLimit - 1)
    expect(bitsOf(await chain.step([{ sequence, ids: ids.slice(-1), select: 'all' }]), vocab)).toEqual(bitsOf(last, vocab))
    sequence.release()
  })

  it('a step in which another stream branches leaves the bits of a line as they are', async () => {
    const part = (await bench.open({ format: 'fp32', split: 1 })).part('middle')
    const [states, hidden] = [randomStates(40, 64, 1), 64]
    const alone = await runRows(part, states, [1])
    const [sequence, tree] = [part.createSequence(), part.createSequence()]
    await part.step([
      { sequence, states: sliceStates(states, 0, 37), select: 'none' },
      { sequence: tree, states: sliceStates(states, 0, 5), select: 'none' },
    ])
    const [rows] = await part.step([
      { sequence, states: sliceStates(states, 37, 40), select: 'all' },
      { sequence: tree, states: sliceStates(states, 5, 9), parents: [4, 4, 5, 6], select: 'all' },
    ])
    expect([...rows!.half]).toEqual([...alone.half.slice(37 * hidden)])
    for (const used of [sequence, tree]) used.release()
  })
})

describe.each([
  ['AWQ', 64, 1],
  ['AWQ', 64, 4],
  ['GPTQ', 32, 1],
  ['GPTQ', 32, 4],
] as const)('a checkpoint in %s in groups of %i, at accuracy level %i', (method, groupSize, accuracyLevel) => {
  it.each(arrangements)('%s: rows depend neither on the size of a step nor on its other streams', async (_, split, options) => {
    await using bench = await workshop({ ...tinyLlamaConfig, intermediate_size: 128, max_position_embeddings: contextLimit })
    quantiseCheckpoint(bench.checkpoint, method, groupSize)
    await expectIndependentRows(bench, { accuracyLevel, ...split }, options)
  })
})

async function expectIndependentRows(
  bench: Workshop,
  built: Parameters<Workshop['open']>[0],
  options: { readonly threads?: number },
): Promise<void> {
  const { folder } = await bench.open(built)
  const model = await openModel(bench.runtime, folder, { parts: 'chain', threads: 1, ...options })
  const chain = model.chain({ cuts: 'half' })
  const { vocab } = model.manifest.dims
  const ids = someIds(model.manifest, length)
  const expected = bitsOf(await decodeAlone(chain, ids), vocab)
  await fc.assert(
    fc.asyncProperty(fc.array(anySteps, { minLength: 1, maxLength: 16 }), async (streams) => {
      for (const { stream, from, logits } of await stepTogether(chain, ids, streams))
        expect([stream, from, differing(bitsOf(logits, vocab), expected, from)]).toEqual([stream, from, []])
    }),
    // One more than a tile of queries; the last position of the context; few rows of several streams, whose heads attention reads as rows.
    {
      // One of them random.
      numRuns: 4,
      examples: [
        [[{ sizes: [65, 1, 129] }]],
        [[{ sizes: [2] }, { sizes: [length - 1] }]],
        [[{ sizes: [1] }, { sizes: [1, 2] }, { sizes: [63, 1, 2] }]],
      ],
    },
  )
  await model.release()
}

/** One stream: the sizes of its steps, again and again. */
const anySteps = fc.record({
  sizes: fc.array(fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 70 })), { minLength: 1, maxLength: 5 }),
})

async function runRows(part: Part, states: States, sizes: readonly number[]): Promise<States> {
  const sequence: Sequence = part.createSequence()
  const blocks: States[] = []
  for (let from = 0, step = 0; from < states.rows; step++) {
    const to = Math.min(states.rows, from + sizes[step % sizes.length]!)
    blocks.push(...(await part.step([{ sequence, states: sliceStates(states, from, to), select: 'all' }])))
    from = to
  }
  sequence.release()
  return concatStates(blocks, states.width)
}

/** The bits of each row. */
function bitsOf(logits: Float32Array, vocab: number): string[] {
  const bytes = Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength)
  return Array.from({ length: logits.length / vocab }, (_, row) =>
    bytes.toString('latin1', row * vocab * 4, (row + 1) * vocab * 4),
  )
}

/** Positions of the rows that differ. */
const differing = (rows: readonly string[], expected: readonly string[], from: number) =>
  rows.flatMap((row, at) => (row === expected[from + at] ? [] : [from + at]))
