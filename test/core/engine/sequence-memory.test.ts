import { afterAll, beforeAll, expect, it } from 'vitest'
import { openRuntime } from '../../../core/engine/capi.ts'
import type { Runtime } from '../../../core/engine/runtime.ts'
import { KvSequence } from '../../../core/engine/sequence.ts'
import { KvPool } from '../../../core/engine/sequence-memory.ts'

let runtime: Runtime
beforeAll(async () => {
  runtime = await openRuntime()
})
afterAll(() => runtime.close())

const shape = { layers: 2, kvHeads: 2, headDim: 16 }

it('reports missing memory for a sequence and leaves it unchanged', () => {
  const sequence = new KvSequence(new KvPool(runtime, shape), 2 ** 45)
  sequence.reserve(100)
  expect(() => sequence.reserve(2 ** 44)).toThrow(expect.objectContaining({ code: 'OUT_OF_MEMORY' }))
  expect([sequence.capacity, sequence.length]).toEqual([128, 0])
})

it('pools at most 64 MiB of recycled buffers', () => {
  const pool = new KvPool(runtime, shape)
  const perPosition = 2 * 2 * 2 * 16 * 4
  const capacity = (40 * 2 ** 20) / perPosition
  const [first, second] = [pool.acquire(capacity), pool.acquire(capacity)]
  pool.recycle(first)
  pool.recycle(second)
  const taken = [pool.acquire(capacity), pool.acquire(capacity)]
  // As booleans: a failed comparison would print 40 MiB.
  expect(taken.map((memory) => memory === first)).toEqual([true, false])
  expect(taken.some((memory) => memory === second)).toBe(false)
})

it('never shares a buffer between two sequences', () => {
  const pool = new KvPool(runtime, shape)
  const first = pool.acquire(64)
  pool.recycle(first)
  expect([pool.acquire(64), pool.acquire(64)].filter((memory) => memory === first)).toHaveLength(1)
})

it('grows to the context limit if doubling would exceed it', () => {
  const sequence = new KvSequence(new KvPool(runtime, shape), 100)
  sequence.reserve(65)
  expect(sequence.capacity).toBe(100)
  expect(() => sequence.reserve(101)).toThrow(expect.objectContaining({ code: 'CONTEXT_OVERFLOW' }))
})
