import { expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { bootstrapMean } from '../../../../core/policy/estimate/bootstrap.ts'

const draw = () => seededRandom(1)

it('the bootstrap interval of a mean holds it, is a point for equal values, and shrinks with their number', () => {
  const random = seededRandom(2)
  const values = Array.from({ length: 400 }, () => random.next())
  const [few, many] = [bootstrapMean(values.slice(0, 20), draw())!, bootstrapMean(values, draw())!]
  for (const { mean, low, high } of [few, many]) expect(low < mean && mean < high).toBe(true)
  expect(few.high - few.low).toBeGreaterThan(2 * (many.high - many.low))
  // Of uniform values: 1.96 · √(1/12) / √400 each way.
  expect(many.high - many.low).toBeCloseTo(0.0566, 2)
  expect(bootstrapMean([3, 3, 3], draw())).toEqual({ mean: 3, low: 3, high: 3 })
  expect(bootstrapMean([], draw())).toBeUndefined()
})
