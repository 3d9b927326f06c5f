import fc from 'fast-check'
import { expect, it } from 'vitest'
import { TokenBucket } from '../../../../core/policy/quota/token-bucket.ts'

it('lets a burst pass, then as much as its rate', () => {
  const bucket = new TokenBucket({ perS: 10, burst: 3 }, 0)
  expect([1, 1, 1].map((count) => bucket.spend(count, 0))).toEqual([0, 0, 0])
  expect(bucket.spend(1, 0)).toBeCloseTo(100)
  expect(bucket.spend(1, 200)).toBeCloseTo(0)
  // A full bucket saves no more than its burst.
  expect([1, 1, 1, 1].map((count) => bucket.spend(count, 60_000))).toEqual([0, 0, 0, expect.closeTo(100)])
})

it('a client that waits as requested spends no more than the burst, the last item and the rate', () => {
  const items = fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 1, maxLength: 50 })
  fc.assert(
    fc.property(items, fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 100 }), (counts, perS, burst) => {
      const bucket = new TokenBucket({ perS, burst }, 0)
      let [nowMs, spent] = [0, 0]
      for (const count of counts) {
        expect(spent).toBeLessThanOrEqual(burst + (nowMs / 1_000) * perS + 1e-6)
        spent += count
        nowMs += bucket.spend(count, nowMs)
      }
    }),
  )
})
