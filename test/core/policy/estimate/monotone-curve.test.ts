import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { delayAt, MonotoneCurve } from '../../../../core/policy/estimate/monotone-curve.ts'
import { StateMonitor } from '../../../../core/policy/hat/state-monitor.ts'

const anyStep = fc.record({
  tokens: fc.integer({ min: 1, max: 4096 }),
  delayS: fc.double({ min: 0, max: 10, noNaN: true }),
})

function curveOf(steps: readonly { tokens: number; delayS: number }[]): MonotoneCurve {
  const curve = new MonotoneCurve()
  for (const { tokens, delayS } of steps) curve.record(tokens, delayS)
  return curve
}

describe('the delay of a cloud step by its tokens', () => {
  it('is smoothed where steps are alike (Eq. 2), and apart where they are not', () => {
    const curve = curveOf([
      { tokens: 8, delayS: 1 },
      { tokens: 256, delayS: 5 },
      { tokens: 8, delayS: 2 },
    ])
    expect(curve.knots()).toEqual([
      { tokens: 8, delayS: expect.closeTo(0.8 * 1 + 0.2 * 2) },
      { tokens: 256, delayS: 5 },
    ])
  })

  it.each([
    { what: 'flat before the first step known', tokens: 1, delayS: 1 },
    { what: 'as measured at a knot', tokens: 200, delayS: 3 },
    { what: 'in a straight line between two', tokens: 150, delayS: 2 },
    { what: 'along the last line past the last', tokens: 300, delayS: 5 },
  ])('reads $what', ({ tokens, delayS }) => {
    const curve = curveOf([
      { tokens: 100, delayS: 1 },
      { tokens: 200, delayS: 3 },
    ])
    expect(curve.delayS(tokens)).toBeCloseTo(delayS)
  })

  it('is in proportion past one single step, and nothing before any', () => {
    expect(curveOf([{ tokens: 10, delayS: 1 }]).delayS(30)).toBeCloseTo(3)
    expect(new MonotoneCurve().delayS(30)).toBe(0)
  })

  it('never falls with more tokens, whatever was measured', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), fc.array(fc.integer({ min: 1, max: 10_000 })), (steps, asked) => {
        const curve = curveOf(steps)
        const delays = asked.sort((a, b) => a - b).map((tokens) => curve.delayS(tokens))
        delays.forEach((delay, at) => {
          expect(delay).toBeGreaterThanOrEqual((delays[at - 1] ?? 0) * (1 - 1e-9))
        })
      }),
    )
  })

  it('is not led astray by a hiccup, neither where many steps were nor where one was', () => {
    const usual = Array.from({ length: 40 }, (_, at) => ({ tokens: at % 2 === 0 ? 8 : 16, delayS: at % 2 === 0 ? 1 : 2 }))
    const curve = curveOf([...usual, { tokens: 8, delayS: 100 }, { tokens: 11, delayS: 100 }, { tokens: 16, delayS: 2 }])
    expect(curve.delayS(8)).toBeCloseTo(1.2)
    // One step of 100 s among more than twenty: what pooling makes of it stays below what it alone would be.
    expect(curve.delayS(16)).toBeLessThan(8)
    const often = curveOf([...usual, ...Array.from({ length: 30 }, () => ({ tokens: 8, delayS: 100 }))])
    expect(often.delayS(8)).toBeGreaterThan(20)
  })

  it('rises again from a step that a coarse clock took for none', () => {
    expect(
      curveOf([{ tokens: 8, delayS: 0 }, ...Array.from({ length: 40 }, () => ({ tokens: 8, delayS: 1 }))]).delayS(8),
    ).toBeGreaterThan(0.9)
  })

  it('stays between what was measured', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { minLength: 1, maxLength: 60 }), (steps) => {
        const delays = steps.map(({ delayS }) => delayS)
        for (const { delayS } of curveOf(steps).knots()) {
          expect(delayS).toBeGreaterThanOrEqual(Math.min(...delays) - 1e-9)
          expect(delayS).toBeLessThanOrEqual(Math.max(...delays) + 1e-9)
        }
      }),
    )
  })

  it.each([
    [0, 1],
    [-1, 1],
    [1, -1],
    [1, Number.NaN],
    [Number.POSITIVE_INFINITY, 1],
  ])('refuses a step of %d tokens in %d s', (tokens, delayS) => {
    expect(() => new MonotoneCurve().record(tokens, delayS)).toThrow(RangeError)
  })
})

describe('the state of the cloud', () => {
  it('smooths the tokens of a step (Eq. 1), and takes a delay for the batch that had it', () => {
    const monitor = new StateMonitor()
    expect(monitor.batchTokens).toBe(0)
    monitor.record(10, 0.1)
    monitor.record(110, 1.1)
    expect(monitor.batchTokens).toBeCloseTo(30)
    expect(delayAt(monitor.g.knots(), 110)).toBeCloseTo(1.1)
  })
})
