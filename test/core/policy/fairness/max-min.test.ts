import fc from 'fast-check'
import { expect, it } from 'vitest'
import { maxMinShares } from '../../../../core/policy/fairness/max-min.ts'

it('gives out all that is wanted, and no more to one demand than to another that is not met', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(50), { minLength: 1, maxLength: 8 }), fc.nat(100), (demands, amount) => {
      const shares = maxMinShares(new Map(demands.entries()), amount)
      const given = demands.map((_, at) => shares.get(at)!)
      const sum = (all: readonly number[]) => all.reduce((total, one) => total + one, 0)
      expect(sum(given)).toBeCloseTo(Math.min(amount, sum(demands)))
      for (const [at, share] of given.entries()) {
        expect(share).toBeLessThanOrEqual(demands[at]!)
        if (share < demands[at]!) expect(Math.max(...given)).toBeLessThanOrEqual(share + 1e-9)
      }
    }),
  )
})
