import { expect, it } from 'vitest'
import { RecentQuantiles } from '../../../../core/policy/estimate/recent-quantiles.ts'

it('covers the latest samples only', () => {
  const recent = new RecentQuantiles(3)
  expect([recent.count, recent.at(0.5)]).toEqual([0, null])
  for (const sample of [100, 1, 3, 2]) recent.record(sample)
  expect([recent.count, recent.at(0), recent.at(0.5), recent.at(1)]).toEqual([3, 1, 2, 3])
})
