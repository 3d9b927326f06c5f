import { expect, it } from 'vitest'
import { loadsRather, reuseOf } from '../../../../core/policy/serving/prefix-reuse.ts'

it.each([
  [20, 20, 'take'],
  [52, 20, 'take'],
  [53, 20, 'copy'],
  [19, 20, 'none'],
] as const)('of %i cached positions a stream that begins with %i gets them by %s', (cached, length, way) => {
  expect(reuseOf(cached, length)).toBe(way)
})

it.each([
  [16, 0, true],
  [0, 0, false],
  [64, 64, false],
  [64, 49, false],
  [64, 48, true],
  [64, 100, false],
])('of %i saved rows, beside %i in the memory, the load is worth it: %s', (saved, inMemory, isWorthIt) => {
  expect(loadsRather(saved, inMemory)).toBe(isWorthIt)
})
