import { describe, expect, it } from 'vitest'
import type { States } from '../../../../core/wire/protocol/states.ts'
import { tinyLlamaConfig, tinyQwen2Config } from '../../../../lab/random-checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { largestDifference, someIds, workshop } from './models.ts'

describe.each([
  ['Llama', tinyLlamaConfig],
  ['Qwen2', tinyQwen2Config],
])('a %s model split at any layer', (_, config) => {
  const bench = shared(() => workshop(config))
  const whole = shared(async () => (await bench.open({ format: 'fp32' })).chain({ cuts: 'full' }))

  it.each([1, 2, 3])('after %i: equals the unsplit one if the cuts do not round', async (split) => {
    const chain = (await bench.open({ format: 'fp32', split })).chain({ cuts: 'full' })
    const ids = someIds(whole.manifest, 70)
    const [a, b] = [whole.createSequence(), chain.createSequence()]
    for (const [from, to] of [
      [0, 1],
      [1, 34],
      [34, 38],
      [38, 70],
    ] as const) {
      const step = { ids: ids.slice(from, to), select: 'all' as const }
      const expected = await whole.step([{ ...step, sequence: a }])
      expect(largestDifference(await chain.step([{ ...step, sequence: b }]), expected)).toBeLessThan(1e-5)
    }
  })

  it('rounds to fp16 at the cuts if configured', async () => {
    const model = await bench.open({ format: 'fp32', split: 2 })
    const [rounded, exact] = [model.chain({ cuts: 'half' }), model.chain({ cuts: 'full' })]
    const ids = someIds(whole.manifest, 30)
    const logits = await rounded.step([{ sequence: rounded.createSequence(), ids, select: 'all' }])
    const unrounded = await exact.step([{ sequence: exact.createSequence(), ids, select: 'all' }])
    expect(largestDifference(logits, unrounded)).toBeGreaterThan(1e-5)
    expect(largestDifference(logits, unrounded)).toBeLessThan(0.05)
  })
})

describe('states at a cut', () => {
  const bench = shared(workshop)

  it('contain the selected rows of each item in the given order', async () => {
    const model = await bench.open({ format: 'fp32', split: 2 })
    const [input, middle] = [model.part('input'), model.part('middle')]
    const ids = someIds(model.manifest, 6)
    const [shallow] = await input.step([{ sequence: input.createSequence(), ids, select: 'none' }])
    expect(shallow?.rows).toBe(6)
    const run = (select: readonly number[] | 'all' | 'last' | 'none') =>
      middle.step([{ sequence: middle.createSequence(), states: shallow!, select }]).then(([deep]) => deep!)
    const all = await run('all')
    expect(rowsOf(await run([4, 0]))).toEqual([rowsOf(all)[4], rowsOf(all)[0]])
    expect(rowsOf(await run('last'))).toEqual([rowsOf(all)[5]])
    expect((await run('none')).rows).toBe(0)
    // Several items, one of which selects no rows.
    const deep = await middle.step([
      { sequence: middle.createSequence(), states: shallow!, select: [5] },
      { sequence: middle.createSequence(), states: shallow!, select: 'none' },
      { sequence: middle.createSequence(), states: shallow!, select: 'all' },
    ])
    expect(deep.map(rowsOf)).toEqual([[rowsOf(all)[5]], [], rowsOf(all)])
  })

  it('contain a row beyond fp16 in fp32, which replaces its fp16 form', async () => {
    const model = await bench.open({ format: 'fp32', split: 2 })
    const middle = model.part('middle')
    const { hidden } = model.manifest.dims
    // The residual stream carries inputs to outputs: a large value stays large.
    const values = Float32Array.from({ length: hidden }, (_, i) => (i === 7 ? 1e6 : Math.sin(i)))
    const half = new Uint16Array(3 * hidden).fill(0x3800)
    half.fill(0x7c00, hidden, 2 * hidden)
    const states: States = { rows: 3, width: hidden, half, wide: { index: [1], values } }
    const [deep] = await middle.step([{ sequence: middle.createSequence(), states, select: 'all' }])
    expect(deep?.wide?.index).toEqual([1])
    expect(deep?.wide?.values[7]).toBeGreaterThan(9e5)
    expect(deep?.wide?.values.every(Number.isFinite)).toBe(true)
    const logits = await model.head().logits(deep!)
    expect(logits.every(Number.isFinite)).toBe(true)
    expect(largestDifference(await model.head().logits(deep!), logits)).toBe(0)
  })

  it('are rejected if their sizes are inconsistent', async () => {
    const model = await bench.open({ format: 'fp32', split: 2 })
    const middle = model.part('middle')
    const { hidden } = model.manifest.dims
    const good: States = { rows: 2, width: hidden, half: new Uint16Array(2 * hidden) }
    const step = (states: States) => middle.step([{ sequence: middle.createSequence(), states, select: 'all' }])
    await expect(step({ ...good, width: hidden - 1 })).rejects.toThrow(RangeError)
    await expect(step({ ...good, rows: 3 })).rejects.toThrow(RangeError)
    await expect(step({ ...good, wide: { index: [2], values: new Float32Array(hidden) } })).rejects.toThrow(RangeError)
    await expect(step({ ...good, wide: { index: [0], values: new Float32Array(1) } })).rejects.toThrow(RangeError)
    await expect(step(good)).resolves.toHaveLength(1)
    const ids = { sequence: middle.createSequence(), ids: [1], select: 'all' as const }
    await expect(middle.step([ids])).rejects.toThrow(/states/)
  })

  it('are available only from loaded parts', async () => {
    const split = await bench.open({ format: 'fp32', split: 2 })
    expect(() => split.part('adapter')).toThrow(expect.objectContaining({ code: 'BUNDLE_INVALID' }))
    const whole = await bench.open({ format: 'fp32' })
    expect(() => whole.part('middle')).toThrow(expect.objectContaining({ code: 'BUNDLE_INVALID' }))
    expect(() => whole.head()).toThrow(expect.objectContaining({ code: 'BUNDLE_INVALID' }))
  })
})

const rowsOf = ({ rows, width, half }: States) =>
  Array.from({ length: rows }, (_, row) => [...half.subarray(row * width, (row + 1) * width)])
