import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { quantile } from '../../../../core/policy/estimate/quantile.ts'
import { LogHistogram } from '../../../../lab/simulate/results/log-histogram.ts'

describe('LogHistogram', () => {
  it('has the mean and the maximum, and quantiles to one percent, over nine orders of magnitude', () => {
    const random = seededRandom(2)
    const values = Array.from({ length: 20_000 }, () => 10 ** (9 * random.next() - 2.5))
    const histogram = new LogHistogram()
    for (const value of values) histogram.add(value)
    const { count, mean, max, p50, p95, p99 } = histogram.statistics
    expect({ count, max }).toEqual({ count: 20_000, max: Math.max(...values) })
    expect(mean).toBeCloseTo(values.reduce((sum, value) => sum + value, 0) / values.length, 3)
    for (const [ours, share] of [
      [p50, 0.5],
      [p95, 0.95],
      [p99, 0.99],
    ] as const)
      expect(Math.abs(ours / quantile(values, share) - 1)).toBeLessThan(0.01)
  })

  it('knows each quantile of one value to half a percent', () => {
    for (const value of [0.37, 12.3, 456, 78_901]) {
      const histogram = new LogHistogram()
      histogram.add(value, 9)
      histogram.add(1e8)
      expect(Math.abs(histogram.quantile(0.5) / value - 1)).toBeLessThanOrEqual(0.005)
      expect(histogram.statistics.mean).toBeCloseTo((9 * value + 1e8) / 10, 6)
    }
  })

  it('counts values several times, and zeros', () => {
    const histogram = new LogHistogram()
    histogram.add(0, 3)
    histogram.add(8)
    expect(histogram.statistics).toMatchObject({ count: 4, mean: 2, p50: 0, max: 8 })
    expect(histogram.quantile(0.9)).toBeCloseTo(8, 1)
  })

  it('knows nothing of nothing', () => {
    const { count, ...others } = new LogHistogram().statistics
    expect(count).toBe(0)
    expect(Object.values(others).every(Number.isNaN)).toBe(true)
  })
})
