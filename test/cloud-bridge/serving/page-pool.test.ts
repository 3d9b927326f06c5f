import { expect, it } from 'vitest'
import { PagePool } from '../../../cloud-bridge/serving/page-pool.ts'

const values = 16 * 96

it('gives pages of a few buffers, and zeroes those that are reused', () => {
  const pool = new PagePool()
  const pages = Array.from({ length: 1_000 }, () => pool.acquire(values))
  expect(new Set(pages.map(({ buffer }) => buffer)).size).toBe(1)
  expect(new Set(pages.map(({ byteOffset }) => byteOffset)).size).toBe(1_000)
  const [first, second] = [pages[0]!, pages[1]!.subarray(0, 5 * 96)]
  first.fill(1)
  second.fill(2)
  pool.recycle({ rows: 16, values: first })
  pool.recycle({ rows: 5, values: second })
  const again = [pool.acquire(values), pool.acquire(values)]
  expect(new Set(again.map(({ byteOffset }) => byteOffset))).toEqual(new Set([first.byteOffset, second.byteOffset]))
  expect(again.every((page) => page.length === values && page.every((value) => value === 0))).toBe(true)
  expect(pages[2]!.every((value) => value === 0)).toBe(true)
})

it.runIf(process.platform === 'linux')('gives free pages back to the system, and leaves the others', () => {
  const pool = new PagePool()
  const large = 2 ** 20
  const pages = Array.from({ length: 40 }, () => pool.acquire(large).fill(3))
  const last = pages.pop()!
  for (const page of pages) pool.recycle({ rows: 16, values: page })
  const before = process.memoryUsage().rss
  pool.releaseFree()
  expect(before - process.memoryUsage().rss).toBeGreaterThan(100 * 2 ** 20)
  expect(last.every((value) => value === 3)).toBe(true)
  expect(pool.acquire(large).every((value) => value === 0)).toBe(true)
})
