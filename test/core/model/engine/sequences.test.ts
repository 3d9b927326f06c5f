import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Chain, Sequence } from '../../../../core/model/engine/contract.ts'
import { maxPadRows } from '../../../../core/model/engine/part-packing.ts'
import { KvSequence, kvBlockPositions } from '../../../../core/model/engine/sequence.ts'
import { StackedSequence, sequenceBytesOf } from '../../../../core/model/engine/stacked-sequence.ts'
import { shared } from '../../../support/shared.ts'
import { largestDifference, someIds, workshop } from './models.ts'

const bench = shared(workshop)
const chains = new Map<string, Chain>()
beforeAll(async () => {
  chains.set('whole', (await bench.open({ format: 'fp32' })).chain({ cuts: 'full' }))
  chains.set('split', (await bench.open({ format: 'fp32', split: 2 })).chain({ cuts: 'full' }))
})

describe.each(['whole', 'split'])('a sequence of a %s model', (kind) => {
  let chain: Chain
  beforeAll(() => {
    chain = chains.get(kind)!
  })

  it('uses no memory before its first row, then grows by blocks', async () => {
    const sequence = chain.createSequence()
    expect([sequence.length, sequence.capacity, sequence.bytes]).toEqual([0, 0, 0])
    await extend(chain, sequence, someIds(chain.manifest, 3))
    expect([sequence.length, sequence.capacity]).toEqual([3, 64])
    await extend(chain, sequence, someIds(chain.manifest, 62))
    expect([sequence.length, sequence.capacity]).toEqual([65, 128])
    const { layers, kvHeads, headDim } = chain.manifest.dims
    expect(sequence.bytes).toBe(2 * layers * kvHeads * headDim * 128 * 4)
    expect(sequenceBytesOf(() => chain.createSequence())).toEqual({
      bytesPerPosition: 2 * layers * kvHeads * headDim * 4,
      fixedBytes: 0,
    })
    await extend(chain, sequence, someIds(chain.manifest, 64))
    expect(sequence.capacity).toBe(192)
    sequence.release()
  })

  it('returns the same rows after growing as with its final capacity from the start', async () => {
    const ids = someIds(chain.manifest, 140)
    const whole = await fresh(chain, ids)
    const sequence = chain.createSequence()
    const pieces: Float32Array[] = []
    for (const [from, to] of [
      [0, 60],
      [60, 64],
      [64, 65],
      [65, 130],
      [130, 140],
    ] as const)
      pieces.push(await extend(chain, sequence, ids.slice(from, to)))
    expect(largestDifference(concat(pieces), whole)).toBeLessThan(1e-5)
    sequence.release()
  })

  it('returns the same rows after a chunked prefill as after a single one', async () => {
    const ids = someIds(chain.manifest, 90, 7)
    const whole = await fresh(chain, ids)
    for (const chunk of [1, 7, 32]) {
      const sequence = chain.createSequence()
      const pieces: Float32Array[] = []
      for (let at = 0; at < ids.length; at += chunk) pieces.push(await extend(chain, sequence, ids.slice(at, at + chunk)))
      expect(largestDifference(concat(pieces), whole)).toBeLessThan(1e-5)
      sequence.release()
    }
  })

  it('forgets truncated rows, at any length and any number of times', async () => {
    const cut = fc.record({
      keep: fc.nat(40),
      ids: fc.array(fc.nat(chain.manifest.dims.vocab - 1), { minLength: 1, maxLength: 9 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(cut, { minLength: 1, maxLength: 5 }), async (cuts) => {
        const sequence = chain.createSequence()
        let kept: number[] = []
        for (const { keep, ids } of cuts) {
          const length = Math.min(keep, kept.length)
          sequence.truncate(length)
          kept = [...kept.slice(0, length), ...ids]
          const rows = await extend(chain, sequence, ids)
          const expected = (await fresh(chain, kept)).subarray(length * chain.manifest.dims.vocab)
          expect(sequence.length).toBe(kept.length)
          expect(largestDifference(rows, expected)).toBeLessThan(1e-5)
        }
        sequence.release()
      }),
      { numRuns: 25 },
    )
  })

  it('can copy the prefix of another sequence and is independent of it afterwards', async () => {
    const ids = someIds(chain.manifest, 80, 3)
    const source = chain.createSequence()
    await extend(chain, source, ids)
    for (const length of [0, 1, 33, 80]) {
      const copy = chain.createSequence()
      await extend(chain, copy, [5, 6])
      copy.copyPrefix(source, length)
      expect(copy.length).toBe(length)
      const rows = await extend(chain, copy, [9, 10])
      const expected = (await fresh(chain, [...ids.slice(0, length), 9, 10])).subarray(length * chain.manifest.dims.vocab)
      expect(largestDifference(rows, expected)).toBeLessThan(1e-5)
      copy.release()
    }
    const rows = await extend(chain, source, [11])
    expect(largestDifference(rows, (await fresh(chain, [...ids, 11])).subarray(80 * chain.manifest.dims.vocab))).toBeLessThan(
      1e-5,
    )
    source.release()
  })

  it('gathers rows in the given order', async () => {
    // Rows that keep their places give the result of a fresh run.
    const ids = someIds(chain.manifest, 20, 4)
    const sequence = chain.createSequence()
    await extend(chain, sequence, ids)
    sequence.gather(12, [12, 13, 14])
    expect(sequence.length).toBe(15)
    const rows = await extend(chain, sequence, [8])
    expect(
      largestDifference(rows, (await fresh(chain, [...ids.slice(0, 15), 8])).subarray(15 * chain.manifest.dims.vocab)),
    ).toBeLessThan(1e-5)
    // Reversing rows twice changes nothing.
    sequence.gather(10, [15, 14, 13, 12, 11, 10])
    sequence.gather(10, [15, 14, 13, 12, 11, 10])
    const again = await extend(chain, sequence, [9])
    expect(
      largestDifference(again, (await fresh(chain, [...ids.slice(0, 15), 8, 9])).subarray(16 * chain.manifest.dims.vocab)),
    ).toBeLessThan(1e-5)
    sequence.release()
  })

  it('rejects positions that it does not have', async () => {
    const sequence = chain.createSequence()
    await extend(chain, sequence, [1, 2, 3])
    expect(() => sequence.truncate(4)).toThrow(RangeError)
    expect(() => sequence.truncate(-1)).toThrow(RangeError)
    expect(() => sequence.gather(2, [3])).toThrow(RangeError)
    expect(() => sequence.gather(2, [1])).toThrow(RangeError)
    expect(() => sequence.gather(4, [])).toThrow(RangeError)
    expect(() => chain.createSequence().copyPrefix(sequence, 4)).toThrow(RangeError)
    expect(sequence.length).toBe(3)
    sequence.release()
  })

  it('rejects a context overflow before any work and can be used afterwards', async () => {
    const { contextLimit } = chain.manifest.dims
    const sequence = chain.createSequence()
    await extend(chain, sequence, someIds(chain.manifest, contextLimit - 2))
    expect(sequence.capacity).toBe(contextLimit)
    const other = chain.createSequence()
    const items = [
      { sequence: other, ids: [1], select: 'last' as const },
      { sequence, ids: [1, 2, 3], select: 'last' as const },
    ]
    await expect(chain.step(items)).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' })
    expect([sequence.length, other.length]).toEqual([contextLimit - 2, 0])
    await extend(chain, sequence, [1, 2])
    await expect(extend(chain, sequence, [1])).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' })
    for (const each of [sequence, other]) each.release()
  })

  it('continues bit for bit after an eviction, once its rows are written back, also if some are dropped or moved meanwhile', async () => {
    const ids = someIds(chain.manifest, 70, 8)
    const edits: ((sequence: Sequence) => void)[] = [
      () => {},
      (sequence) => sequence.truncate(40),
      (sequence) => sequence.truncate(0),
      (sequence) => sequence.gather(40, [40, 41]),
    ]
    for (const edit of edits) {
      const [evicted, resident] = [chain.createSequence(), chain.createSequence()]
      for (const sequence of [evicted, resident]) await extend(chain, sequence, ids)
      const pages = await pagesOf(evicted)
      evicted.evict()
      expect([evicted.length, evicted.held, evicted.capacity, evicted.bytes]).toEqual([70, 0, 0, 0])
      edit(evicted)
      edit(resident)
      for (const { from, to, values } of pages) if (from < evicted.length) evicted.writeRows(from, to, values)
      expect([evicted.length, evicted.held]).toEqual([resident.length, resident.length])
      const copy = chain.createSequence()
      copy.copyPrefix(evicted, evicted.length)
      const expected = await extend(chain, resident, [9, 10])
      expect(largestDifference(await extend(chain, evicted, [9, 10]), expected)).toBe(0)
      expect(largestDifference(await extend(chain, copy, [9, 10]), expected)).toBe(0)
      for (const sequence of [evicted, resident, copy]) sequence.release()
    }
  })

  it('continues another sequence bit for bit, once the rows that it claims are written back', async () => {
    const ids = someIds(chain.manifest, 70, 8)
    const [source, sequence] = [chain.createSequence(), chain.createSequence()]
    await extend(chain, source, ids)
    const pages = await pagesOf(source)
    await extend(chain, sequence, [5])
    sequence.truncate(0)
    expect(sequence.claim(64, ids)).toBe(true)
    expect([sequence.length, sequence.line, sequence.held]).toEqual([64, 64, 0])
    await expect(extend(chain, sequence, [9])).rejects.toThrow(/not written back/)
    for (const { from, to, values } of pages) if (from < 64) sequence.writeRows(from, to, values)
    const expected = await extend(chain, source, [9, 10])
    expect(
      largestDifference(
        await extend(chain, sequence, [...ids.slice(64), 9, 10]).then((rows) => rows.slice(-expected.length)),
        expected,
      ),
    ).toBe(0)
    expect(() => chain.createSequence().claim(chain.manifest.dims.contextLimit + 1)).toThrow(/context/)
    for (const each of [source, sequence]) each.release()
  })

  it('refuses a step, a copy and a gap while rows of an eviction are missing', async () => {
    const sequence = chain.createSequence()
    await extend(chain, sequence, someIds(chain.manifest, 40))
    const [first, second] = (await pagesOf(sequence)) as [RowRange, RowRange]
    await expect(sequence.readRows(40, 43, new Float32Array(3 * sequence.rowValues))).rejects.toThrow(RangeError)
    sequence.evict()
    await expect(sequence.readRows(0, 16, first.values)).rejects.toThrow(RangeError)
    expect(() => sequence.writeRows(second.from, second.to, second.values)).toThrow(RangeError)
    sequence.writeRows(first.from, first.to, first.values)
    await expect(extend(chain, sequence, [1])).rejects.toThrow(/not written back/)
    expect(() => chain.createSequence().copyPrefix(sequence, 17)).toThrow(RangeError)
    // Without the missing rows it goes on.
    sequence.truncate(16)
    await extend(chain, sequence, [1])
    expect([sequence.length, sequence.held]).toEqual([17, 17])
    sequence.release()
  })

  it('zeroes and reuses the buffers of an evicted sequence, and can be evicted without rows', async () => {
    const sequence = chain.createSequence()
    sequence.evict()
    await extend(chain, sequence, [1, 2])
    const buffers = buffersOf(sequence)
    sequence.evict()
    expect(buffers.every((buffer) => buffer.every((value) => value === 0))).toBe(true)
    sequence.truncate(0)
    sequence.release()
    await expect(extend(chain, sequence, [1])).rejects.toThrow(/released/)
  })

  it('leaves no data for the next sequence that uses its buffers', async () => {
    const first = chain.createSequence()
    await extend(chain, first, someIds(chain.manifest, 30))
    const buffers = buffersOf(first)
    expect(buffers.every((buffer) => buffer.some((value) => value !== 0))).toBe(true)
    first.release()
    expect(buffers.every((buffer) => buffer.every((value) => value === 0))).toBe(true)
    const second = chain.createSequence()
    await extend(chain, second, [1])
    expect(buffersOf(second)[0]?.buffer).toBe(buffers[0]?.buffer)
    second.release()
  })

  it('is not affected by stale rows, even NaN', async () => {
    const ids = someIds(chain.manifest, 12, 6)
    const sequence = chain.createSequence()
    await extend(chain, sequence, ids)
    sequence.truncate(5)
    const { headDim } = chain.manifest.dims
    const positions = kvBlockPositions + maxPadRows
    for (const buffer of buffersOf(sequence))
      for (let plane = 0; plane < buffer.length; plane += positions * headDim)
        buffer.fill(Number.NaN, plane + 5 * headDim, plane + positions * headDim)
    const rows = await extend(chain, sequence, [3, 4])
    expect(
      largestDifference(rows, (await fresh(chain, [...ids.slice(0, 5), 3, 4])).subarray(5 * chain.manifest.dims.vocab)),
    ).toBeLessThan(1e-5)
    sequence.release()
  })

  it('is freed at the end of a step if it is released during it', async () => {
    const sequence = chain.createSequence()
    const ids = someIds(chain.manifest, 50)
    const step = extend(chain, sequence, ids)
    await new Promise((turn) => setImmediate(turn))
    sequence.release()
    const outcome = await step.catch((error: Error) => error)
    // A split model fails between its parts, a whole one at its end.
    if (outcome instanceof Error) expect(outcome.message).toMatch(/released/)
    else expect(largestDifference(outcome, await fresh(chain, ids))).toBeLessThan(1e-5)
    await expect(extend(chain, sequence, [1])).rejects.toThrow(/released/)
    const next = chain.createSequence()
    expect(largestDifference(await extend(chain, next, ids), await fresh(chain, ids))).toBeLessThan(1e-5)
    next.release()
  })

  it('runs concurrent steps one after another', async () => {
    const sequence = chain.createSequence()
    const ids = someIds(chain.manifest, 6, 9)
    const whole = await fresh(chain, ids)
    const others = Array.from({ length: 3 }, () => chain.createSequence())
    const [rows] = await Promise.all([extend(chain, sequence, ids), ...others.map((other) => extend(chain, other, [1, 2]))])
    expect(largestDifference(rows!, whole)).toBeLessThan(1e-5)
    for (const each of [sequence, ...others]) each.release()
  })

  it('is rejected by other models, and twice in one step', async () => {
    const other = [...chains.values()].find((candidate) => candidate !== chain)!
    await expect(extend(other, chain.createSequence(), [1])).rejects.toThrow(/another/)
    const sequence = chain.createSequence()
    const item = { sequence, ids: [1], select: 'last' as const }
    await expect(chain.step([item, item])).rejects.toThrow(/twice|released/)
    await expect(chain.step([{ sequence, ids: [], select: 'all' }])).rejects.toThrow(RangeError)
    await expect(chain.step([{ sequence, ids: [chain.manifest.dims.vocab], select: 'all' }])).rejects.toThrow(RangeError)
    await expect(chain.step([{ sequence, ids: [1, 2], select: [2] }])).rejects.toThrow(RangeError)
    const many = Array.from({ length: 17 }, () => ({ ...item, sequence: chain.createSequence() }))
    await expect(chain.step(many)).rejects.toThrow(RangeError)
    expect(sequence.length).toBe(0)
  })
})

function extend(chain: Chain, sequence: Sequence, ids: readonly number[]): Promise<Float32Array> {
  return chain.step([{ sequence, ids, select: 'all' }])
}

async function fresh(chain: Chain, ids: readonly number[]): Promise<Float32Array> {
  const sequence = chain.createSequence()
  const logits = await extend(chain, sequence, ids)
  sequence.release()
  return logits
}

function concat(arrays: readonly Float32Array[]): Float32Array {
  return Float32Array.from(arrays.flatMap((array) => [...array]))
}

/** Keys and values, each [kvHeads, capacity, headDim]. */
interface RowRange {
  readonly from: number
  readonly to: number
  readonly values: Float32Array
}

/** Copies of all rows, 16 at a time. */
async function pagesOf(sequence: Sequence): Promise<RowRange[]> {
  const pages: RowRange[] = []
  for (let from = 0; from < sequence.length; from += 16) {
    const to = Math.min(from + 16, sequence.length)
    const values = new Float32Array((to - from) * sequence.rowValues)
    await sequence.readRows(from, to, values)
    pages.push({ from, to, values })
  }
  return pages
}

function buffersOf(sequence: Sequence): Float32Array[] {
  if (sequence instanceof StackedSequence) return sequence.parts.flatMap(buffersOf)
  if (!(sequence instanceof KvSequence)) throw new Error('another kind of sequence')
  const { keys, values } = sequence.startStep()
  sequence.finishStep(undefined)
  return [...keys, ...values].map(({ data }) => data as Float32Array)
}
