import { expect, it } from 'vitest'
import { reuseOf } from '../../../../core/policy/serving/prefix-reuse.ts'

it.each([
  [20, 20, 'take'],
  [52, 20, 'take'],
  [53, 20, 'copy'],
  [19, 20, 'none'],
] as const)('of %i cached positions a stream that begins with %i gets them by %s', (cached, length, way) => {
  expect(reuseOf(cached, length)).toBe(way)
})
