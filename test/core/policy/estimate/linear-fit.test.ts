import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LinearFit } from '../../../../core/policy/estimate/linear-fit.ts'

const fitOf = (samples: readonly (readonly [number, number])[], halfLife = 1e6) => {
  const fit = new LinearFit(halfLife)
  for (const [x, y] of samples) fit.record(x, y)
  return fit.line
}

describe('a line through samples', () => {
  it('is none before the first, and goes through 0 while all have the same x', () => {
    expect(fitOf([])).toBeUndefined()
    expect(fitOf([[0, 7]])).toEqual({ slope: 0, intercept: 7 })
    expect(
      fitOf([
        [10, 70],
        [10, 90],
      ])?.slope,
    ).toBeCloseTo(8)
    expect(
      fitOf([
        [10, 70],
        [10, 90],
      ])?.intercept,
    ).toBe(0)
  })

  it('never falls, and is nowhere below 0', () => {
    const amount = fc.double({ min: 0, max: 1e6, noNaN: true })
    fc.assert(
      fc.property(fc.array(fc.tuple(amount, amount), { minLength: 1, maxLength: 20 }), (samples) => {
        const { slope, intercept } = fitOf(samples) ?? { slope: Number.NaN, intercept: Number.NaN }
        expect(slope).toBeGreaterThanOrEqual(0)
        expect(slope).toBeLessThan(Number.POSITIVE_INFINITY)
        expect(intercept).toBeGreaterThanOrEqual(0)
      }),
    )
  })

  it('follows a change, and leaves out what is no sample', () => {
    const line = (slope: number) => Array.from({ length: 100 }, (_, i) => [i % 10, slope * (i % 10) + 3] as const)
    const broken = [
      [5, Number.NaN],
      [5, -1],
      [Number.POSITIVE_INFINITY, 2],
    ] as const
    const fit = fitOf([...line(2), ...line(9), ...broken], 5)
    expect(fit?.slope).toBeCloseTo(9, 3)
    expect(fit?.intercept).toBeCloseTo(3, 3)
  })
})
