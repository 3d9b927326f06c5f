import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { bootstrapInterval } from '../../../core/policy/estimate/bootstrap.ts'
import { mean } from '../../../lab/frame/statistics.ts'

const anyValue = fc.double({ min: -1e6, max: 1e6, noNaN: true })

describe('the bootstrap interval', () => {
  it('lies within the values, and is one value where all are the same', () => {
    fc.assert(
      fc.property(fc.array(anyValue, { minLength: 1, maxLength: 30 }), fc.nat(), (values, seed) => {
        const [low, high] = bootstrapInterval(values, mean, seededRandom(seed))!
        const [least, greatest] = [Math.min(...values), Math.max(...values)]
        const slack = 1e-9 * Math.max(1, Math.abs(least), Math.abs(greatest))
        return least - slack <= low && low <= high && high <= greatest + slack
      }),
      {
        numRuns: 30,
        examples: [
          [[3], 1],
          [[2, 2, 2], 1],
        ],
      },
    )
  })

  it('covers the mean of the population in about 95 of 100 samples', () => {
    const random = seededRandom(7)
    const samples = Array.from({ length: 200 }, () => Array.from({ length: 40 }, () => random.next()))
    const covered = samples.filter((values, at) => {
      const [low, high] = bootstrapInterval(values, mean, seededRandom(at))!
      return low <= 0.5 && 0.5 <= high
    })
    expect(covered.length).toBeGreaterThan(176)
    expect(covered.length).toBeLessThan(200)
  })

  it('is null where there is nothing to resample', () => {
    expect(bootstrapInterval([], mean, seededRandom(1))).toBeNull()
    expect(bootstrapInterval([1, 2], () => null, seededRandom(1))).toBeNull()
  })
})
