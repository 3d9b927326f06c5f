import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Part } from '../../../../core/model/engine/contract.ts'
import type { LoadedModel } from '../../../../core/model/engine/open-model.ts'
import { concatStates, type States, sliceStates, toStates } from '../../../../core/wire/protocol/states.ts'
import { tinyLlamaConfig } from '../../../../lab/random-checkpoint.ts'
import { adapterRows, type Row, readTensors, rowsOf } from '../../../support/plain-math.ts'
import { type Workshop, workshop } from './models.ts'

const width = tinyLlamaConfig.hidden_size
const shape = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
const both = ['adapter', 'adapter-paper'] as const

let bench: Workshop
let model: LoadedModel
beforeAll(async () => {
  bench = await workshop(tinyLlamaConfig, 'F32', {
    adapter: { ...shape, features: true },
    adapterPaper: { ...shape, kvHeads: 4 },
  })
  model = await bench.open({ format: 'fp32', split: 1, drafters: both })
})
afterAll(() => bench[Symbol.asyncDispose]())

/** The rows as computed with the adapter in this folder of the checkpoint. */
function expected(name: (typeof both)[number], shallow: States, features?: States): Row[] {
  const { rope_theta: theta, rms_norm_eps: epsilon } = tinyLlamaConfig
  const own = { ...shape, kvHeads: name === 'adapter' ? 2 : 4, theta, epsilon }
  const tensors = readTensors(join(bench.checkpoint, name, 'adapter.safetensors'))
  return adapterRows(tensors, own, rowsOf(shallow), features && rowsOf(features))
}

/** As a device has them: zeros where the previous deep state is unknown. */
const partlyKnown = (rows: number, seed: number) =>
  concatStates([zeros(Math.ceil(rows / 2)), noise(rows - Math.ceil(rows / 2), seed)], width)

describe('an adapter with features', () => {
  it.each([
    ['known for no row', (rows: number) => zeros(rows)],
    ['known for the later rows', (rows: number) => partlyKnown(rows, 2)],
    ['known for all rows', (rows: number) => noise(rows, 2)],
    ['of which some exceed fp16', (rows: number) => concatStates([noise(rows - 2, 2), loud(1), noise(1, 5)], width)],
  ])('computes Λ(s, f) with features %s', async (_, make) => {
    const [shallow, features] = [noise(20, 1), make(20)]
    const got = await wholeRun(model.part('adapter'), shallow, features)
    expectClose(rowsOf(got), expected('adapter', shallow, features))
  })

  it('accepts shallow rows that exceed fp16', async () => {
    const shallow = concatStates([noise(3, 1), loud(2), noise(2, 3)], width)
    const got = await wholeRun(model.part('adapter'), shallow, partlyKnown(7, 2))
    expect(got.wide?.index).toEqual([3, 4])
    expectClose(rowsOf(got), expected('adapter', shallow, partlyKnown(7, 2)))
  })

  it('returns the same rows for chunks and for decode steps', async () => {
    const part = model.part('adapter')
    const [shallow, features] = [noise(30, 4), partlyKnown(30, 5)]
    const sequence = part.createSequence()
    const blocks: States[] = []
    for (const [from, to] of [
      [0, 11],
      [11, 12],
      [12, 27],
      [27, 28],
      [28, 30],
    ] as const) {
      const item = { sequence, states: sliceStates(shallow, from, to), features: sliceStates(features, from, to) }
      blocks.push(...(await part.step([{ ...item, select: 'all' }])))
    }
    sequence.release()
    expectClose(rowsOf(concatStates(blocks, width)), expected('adapter', shallow, features))
  })

  it('recomputes rows after a rollback with the features known by then', async () => {
    const part = model.part('adapter')
    const shallow = noise(12, 6)
    const [guessed, known] = [noise(12, 7), concatStates([sliceStates(noise(12, 7), 0, 8), noise(4, 8)], width)]
    const sequence = part.createSequence()
    await part.step([{ sequence, states: shallow, features: guessed, select: 'none' }])
    sequence.truncate(8)
    const [again] = await part.step([
      { sequence, states: sliceStates(shallow, 8, 12), features: sliceStates(known, 8, 12), select: 'all' },
    ])
    sequence.release()
    expectClose(rowsOf(again!), expected('adapter', shallow, known).slice(8))
    expect(again?.half).not.toEqual(sliceStates(await wholeRun(part, shallow, guessed), 8, 12).half)
  })

  it('rejects a step without features for every row, and can be used afterwards', async () => {
    const part = model.part('adapter')
    const sequence = part.createSequence()
    const states = noise(3, 1)
    const step = (features?: States) => part.step([{ sequence, states, ...(features ? { features } : {}), select: 'all' }])
    await expect(step()).rejects.toThrow(/adapter needs features/)
    await expect(step(noise(2, 1))).rejects.toThrow(/2 rows of features for 3/)
    await expect(step({ ...noise(3, 1), width: 32 })).rejects.toThrow(RangeError)
    await expect(step({ ...noise(3, 1), rows: 4 })).rejects.toThrow(RangeError)
    await expect(step({ ...noise(3, 1), wide: { index: [3], values: new Float32Array(width) } })).rejects.toThrow(RangeError)
    const other = { sequence: part.createSequence(), states, select: 'all' as const }
    await expect(part.step([{ sequence, states, features: zeros(3), select: 'all' }, other])).rejects.toThrow(RangeError)
    expect(sequence.length).toBe(0)
    expect((await step(zeros(3)))[0]?.rows).toBe(3)
    sequence.release()
  })
})

describe("the paper's adapter", () => {
  it('computes Λ(s) in a bundle that also has the adapter with features', async () => {
    const shallow = noise(20, 9)
    expectClose(rowsOf(await wholeRun(model.part('adapter-paper'), shallow)), expected('adapter-paper', shallow))
  })

  it.each(['adapter-paper', 'middle'] as const)('rejects features, as part %s does', async (name) => {
    const part = model.part(name)
    const item = { sequence: part.createSequence(), states: noise(2, 1), features: zeros(2), select: 'all' as const }
    await expect(part.step([item])).rejects.toThrow(/takes no features/)
  })
})

describe.each([
  ['fp32', { format: 'fp32' }],
  ['int4 at accuracy level 1', { format: 'int4', accuracyLevel: 1 }],
  ['int4 at accuracy level 4', { format: 'int4', accuracyLevel: 4 }],
] as const)('packed steps of an adapter with features in %s', (_, format) => {
  let part: Part
  beforeAll(async () => {
    part = (await bench.open({ ...format, split: 1, drafters: ['adapter'] })).part('adapter')
  })

  it.each([1, 2, 3, 7, 16])('over %i sequences return the bits of separate steps', async (count) => {
    const streams = Array.from({ length: count }, (_, i) => {
      const rows = 2 + ((5 * i) % 7)
      return { shallow: noise(rows, 10 + i), features: i % 3 === 0 ? zeros(rows) : partlyKnown(rows, 40 + i) }
    })
    const run = async (together: boolean) => {
      const sequences = streams.map(() => part.createSequence())
      const halves: Uint16Array[] = []
      // A first prompt of different lengths, then one decode row each.
      for (const from of [0, 1]) {
        const items = streams.map(({ shallow, features }, i) => {
          const [a, b] = from === 0 ? [0, shallow.rows - 1] : [shallow.rows - 1, shallow.rows]
          const rows = { states: sliceStates(shallow, a, b), features: sliceStates(features, a, b) }
          return { sequence: sequences[i]!, ...rows, select: 'all' as const }
        })
        for (const step of together ? [items] : items.map((item) => [item]))
          for (const { half } of await part.step(step)) halves.push(Uint16Array.from(half))
      }
      for (const sequence of sequences) sequence.release()
      return halves
    }
    expect(await run(true)).toEqual(await run(false))
  })
})

describe('an adapter with features', () => {
  it('in fp16 equals the one in fp32 if its weights are fp16', async () => {
    const half = await bench.open({ format: 'fp16', split: 1, drafters: both })
    const [shallow, features] = [noise(9, 1), partlyKnown(9, 2)]
    const exact = await wholeRun(model.part('adapter'), shallow, features)
    expect(await wholeRun(half.part('adapter'), shallow, features)).toEqual(exact)
  })

  it.each([1, 4] as const)('in int4 at level %i is close to the exact one', async (accuracyLevel) => {
    const rounded = await bench.open({ format: 'int4', accuracyLevel, split: 1, drafters: ['adapter'] })
    const [shallow, features] = [noise(20, 1), partlyKnown(20, 2)]
    const before = rowsOf(shallow)
    const added = (rows: readonly Row[]) => rows.flatMap((row, at) => row.map((value, i) => value - before[at]![i]!))
    const want = added(expected('adapter', shallow, features))
    const got = added(rowsOf(await wholeRun(rounded.part('adapter'), shallow, features)))
    const error = Math.hypot(...got.map((value, i) => value - want[i]!)) / Math.hypot(...want)
    expect(error).toBeGreaterThan(0)
    expect(error).toBeLessThan(0.3)
  })
})

async function wholeRun(part: Part, states: States, features?: States): Promise<States> {
  const sequence = part.createSequence()
  const [rows] = await part.step([{ sequence, states, ...(features ? { features } : {}), select: 'all' }])
  sequence.release()
  return rows!
}

/** Equal but for fp32 sums and the rounding to fp16. */
function expectClose(got: readonly Row[], want: readonly Row[]): void {
  expect(got.length).toBe(want.length)
  const worst = got.flatMap((row, at) =>
    row.map((value, i) => Math.abs(value - want[at]![i]!) - 2 ** -11 * Math.abs(want[at]![i]!)),
  )
  expect(Math.max(...worst)).toBeLessThan(2e-5)
}

function zeros(rows: number): States {
  return { rows, width, half: new Uint16Array(rows * width) }
}

/** Rows of about unit size, the same for the same seed. */
function noise(rows: number, seed: number): States {
  return toStates(
    Float32Array.from({ length: rows * width }, (_, i) => 2 * Math.sin(12.9898 * (i + 1) + 78.233 * seed)),
    width,
  )
}

/** Rows with one value far beyond fp16. */
function loud(rows: number): States {
  return toStates(
    Float32Array.from({ length: rows * width }, (_, i) => (i % width === 7 ? 3e5 : Math.cos(i))),
    width,
  )
}
