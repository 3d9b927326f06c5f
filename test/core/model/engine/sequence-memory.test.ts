import koffi from 'koffi'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { enlargeStacks } from '../../../../core/kit/base/native-stacks.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { KvBuffers } from '../../../../core/model/engine/kv-buffers.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { KvSequence } from '../../../../core/model/engine/sequence.ts'
import { KvPool } from '../../../../core/model/engine/sequence-memory.ts'

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

it('reuses buffers of all capacities, without their pages where more than the limit is free or in use', () => {
  const perPosition = 2 * 2 * 2 * 16 * 4
  const mib = 2 ** 20 / perPosition
  const pool = new KvPool(runtime, shape, 100 * 2 ** 20)
  const small = Array.from({ length: 90 }, () => pool.acquire(mib))
  for (const memory of small) for (const values of valuesOf(memory)) values.fill(1)
  for (const memory of small) pool.recycle(memory)
  const before = residentPages(small)
  const large = pool.acquire(90 * mib)
  expect(residentPages(small) / before).toBeLessThan(process.platform === 'linux' ? 0.4 : 2)
  pool.recycle(large)
  const again = Array.from({ length: 90 }, () => pool.acquire(mib))
  expect(again.every((memory) => small.includes(memory))).toBe(process.platform === 'linux')
  expect(again.every(isZero)).toBe(true)
  expect(pool.acquire(90 * mib) === large).toBe(process.platform === 'linux')
})

it('gives the pages of free buffers back to the system', () => {
  const pool = new KvPool(runtime, shape, 2 ** 30)
  const memory = pool.acquire((128 * 2 ** 20) / (2 * 2 * 2 * 16 * 4))
  for (const values of valuesOf(memory)) values.fill(1)
  pool.recycle(memory)
  const before = residentPages([memory])
  pool.releaseFree()
  expect(residentPages([memory]) / before).toBeLessThan(process.platform === 'linux' ? 0.1 : 2)
  expect(isZero(pool.acquire(memory.capacity))).toBe(true)
})

const valuesOf = ({ keys, values }: KvBuffers) => [...keys, ...values].map(({ data }) => data as Float32Array)

const isZero = (memory: KvBuffers) => valuesOf(memory).every((values) => values.every((value) => value === 0))

/** Of these buffers alone: what the process holds changes with its heap, too. 1 where the system does not tell. */
function residentPages(memories: readonly KvBuffers[]): number {
  if (process.platform !== 'linux') return 1
  enlargeStacks(koffi)
  const mincore = koffi.load(null).func('mincore', 'int', ['uint64_t', 'size_t', 'void *'])
  const page = 4096
  const pages = memories.flatMap(valuesOf).flatMap((values) => {
    const start = Number(koffi.address(values))
    const from = Math.ceil(start / page) * page
    const isResident = Buffer.alloc(Math.floor((start + values.byteLength - from) / page))
    expect(mincore(from, isResident.length * page, isResident)).toBe(0)
    return [...isResident]
  })
  return pages.filter((state) => state & 1).length
}
