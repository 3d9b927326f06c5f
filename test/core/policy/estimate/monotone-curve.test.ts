import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Knot, MonotoneCurve } from '../../../../core/policy/estimate/monotone-curve.ts'

const anySample = fc.record({
  x: fc.integer({ min: 1, max: 4096 }),
  y: fc.double({ min: 0, max: 10, noNaN: true }),
})

function curveOf(samples: readonly Knot[]): MonotoneCurve {
  const curve = new MonotoneCurve()
  for (const { x, y } of samples) curve.record(x, y)
  return curve
}

const repeat = (times: number, sample: Knot) => Array.from({ length: times }, () => sample)

describe('a monotone curve', () => {
  it('averages samples of one bucket, and keeps buckets apart', () => {
    const curve = curveOf([
      { x: 8, y: 1 },
      { x: 256, y: 5 },
      { x: 8, y: 2 },
    ])
    expect(curve.knots()).toEqual([
      { x: 8, y: expect.closeTo(0.8 * 1 + 0.2 * 2) },
      { x: 256, y: 5 },
    ])
  })

  it('weighs the past by alpha', () => {
    const curve = new MonotoneCurve(0.5)
    curve.record(8, 1)
    curve.record(8, 2)
    expect(curve.at(8)).toBeCloseTo(1.5)
  })

  it.each([
    { what: 'constant before the first knot', x: 1, y: 1 },
    { what: 'as measured at a knot', x: 200, y: 3 },
    { what: 'linear between two knots', x: 150, y: 2 },
    { what: 'along the last line past the last knot', x: 300, y: 5 },
  ])('is $what', ({ x, y }) => {
    const curve = curveOf([
      { x: 100, y: 1 },
      { x: 200, y: 3 },
    ])
    expect(curve.at(x)).toBeCloseTo(y)
  })

  it('is proportional past a single knot, and 0 before the first sample', () => {
    expect(curveOf([{ x: 10, y: 1 }]).at(30)).toBeCloseTo(3)
    expect(new MonotoneCurve().at(30)).toBe(0)
  })

  it('never falls, whatever was recorded', () => {
    fc.assert(
      fc.property(fc.array(anySample, { maxLength: 60 }), fc.array(fc.integer({ min: 1, max: 10_000 })), (samples, xs) => {
        const curve = curveOf(samples)
        const values = xs.sort((a, b) => a - b).map((x) => curve.at(x))
        values.forEach((value, at) => {
          expect(value).toBeGreaterThanOrEqual((values[at - 1] ?? 0) * (1 - 1e-9))
        })
      }),
    )
  })

  it('stays between the smallest and the largest sample at its knots', () => {
    fc.assert(
      fc.property(fc.array(anySample, { minLength: 1, maxLength: 60 }), (samples) => {
        const ys = samples.map(({ y }) => y)
        for (const { y } of curveOf(samples).knots()) {
          expect(y).toBeGreaterThanOrEqual(Math.min(...ys) - 1e-9)
          expect(y).toBeLessThanOrEqual(Math.max(...ys) + 1e-9)
        }
      }),
    )
  })

  it('is hardly moved by one outlier, and follows many', () => {
    const usual = [...repeat(20, { x: 8, y: 1 }), ...repeat(20, { x: 16, y: 2 })]
    const curve = curveOf([...usual, { x: 8, y: 100 }, { x: 11, y: 100 }, { x: 16, y: 2 }])
    expect(curve.at(8)).toBeCloseTo(1.2)
    // A single sample of 100 in its own bucket is pooled with more than twenty others.
    expect(curve.at(16)).toBeLessThan(8)
    expect(curveOf([...usual, ...repeat(30, { x: 8, y: 100 })]).at(8)).toBeGreaterThan(20)
  })

  it('rises again from a sample of 0, as a coarse clock measures', () => {
    expect(curveOf([{ x: 8, y: 0 }, ...repeat(40, { x: 8, y: 1 })]).at(8)).toBeGreaterThan(0.9)
  })

  it.each([
    [0, 1],
    [-1, 1],
    [1, -1],
    [1, Number.NaN],
    [Number.POSITIVE_INFINITY, 1],
  ])('rejects the sample (%d, %d)', (x, y) => {
    expect(() => new MonotoneCurve().record(x, y)).toThrow(RangeError)
  })
})
