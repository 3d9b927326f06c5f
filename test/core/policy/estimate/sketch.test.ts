import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/base/random.ts'
import { Sketch, type SketchLayout, wireLevels } from '../../../../core/policy/estimate/sketch.ts'

const layout: SketchLayout = { min: 1, max: 2 ** 20, perOctave: 16, halfLife: 1e6 }
const amount = fc.integer({ min: 0, max: 1e9 }).map((thousandths) => thousandths / 1_000)
const amounts = fc.array(amount, { minLength: 1, maxLength: 200 })

function sketchOf(values: readonly number[], halfLife = layout.halfLife): Sketch {
  const sketch = new Sketch({ ...layout, halfLife })
  for (const value of values) sketch.record(value)
  return sketch
}

/** Log-normal, as times to the first token are. */
function logNormal(count: number, median: number, sigma: number, seed = 1): number[] {
  const random = seededRandom(seed)
  const gauss = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  return Array.from({ length: count }, () => median * Math.exp(sigma * gauss()))
}

const exactCdf = (values: readonly number[], x: number): number => values.filter((value) => value <= x).length / values.length

describe('a sketch of samples', () => {
  it('has a rising F, and F⁻¹(q) is the smallest x with F(x) ≥ q', () => {
    fc.assert(
      fc.property(amounts, amount, amount, fc.double({ min: 1e-3, max: 1, noNaN: true }), (values, a, b, q) => {
        const sketch = sketchOf(values)
        expect(sketch.cdf(Math.min(a, b))).toBeLessThanOrEqual(sketch.cdf(Math.max(a, b)))
        const x = sketch.quantile(q)
        expect(sketch.cdf(x)).toBeGreaterThanOrEqual(q - 1e-6)
        expect(sketch.cdf(x - 1e-6 * x - 1e-9)).toBeLessThanOrEqual(q + 1e-6)
      }),
    )
  })

  it('never errs by more than the samples of one bin, of values within 4.4 % of each other', () => {
    fc.assert(
      fc.property(amounts, amount, (values, x) => {
        const alike = values.filter((value) => Math.abs(value - x) <= 0.045 * Math.max(value, x) + 1).length
        expect(Math.abs(sketchOf(values).cdf(x) - exactCdf(values, x))).toBeLessThanOrEqual(alike / values.length + 1e-3)
      }),
    )
  })

  it('is close to a smooth distribution', () => {
    const values = logNormal(20_000, 400, 0.8)
    const sketch = sketchOf(values)
    for (const x of [100, 250, 400, 700, 1_500]) expect(sketch.cdf(x)).toBeCloseTo(exactCdf(values, x), 2)
    expect(sketch.mean).toBeCloseTo(values.reduce((sum, value) => sum + value, 0) / values.length, 0)
  })

  it('keeps a value that always recurs as a step', () => {
    const sketch = sketchOf([500, 500, 500])
    expect([sketch.cdf(499.99), sketch.cdf(500)]).toEqual([0, 1])
    expect([sketch.quantile(0.01), sketch.quantile(1)]).toEqual([500, 500])
  })

  it('knows nothing before its first sample', () => {
    const sketch = sketchOf([])
    expect([sketch.cdf(1e9), sketch.cdf(Number.POSITIVE_INFINITY)]).toEqual([0, 1])
    expect([sketch.quantile(0), sketch.quantile(0.5)]).toEqual([0, Number.POSITIVE_INFINITY])
    expect([sketch.weight, sketch.mean, sketch.meanResidual(0), sketch.toWire()]).toEqual([0, 0, 0, undefined])
    expect(sketch.sharesAt(7)).toEqual({ smaller: 0, alike: 1 })
  })

  it('leaves out what is no amount', () => {
    const sketch = sketchOf([Number.NaN, -5, Number.POSITIVE_INFINITY, 3])
    sketch.recordAtLeast(Number.NaN)
    sketch.recordAtLeast(-1)
    expect(sketch.weight).toBeCloseTo(1)
    expect(sketch.quantile(1)).toBe(3)
  })

  it('follows a change, and forgets what was before it, however many samples it has seen', () => {
    const sketch = sketchOf([...Array(50_000).fill(100), ...Array(300).fill(900)], 100)
    expect(sketch.cdf(500)).toBeCloseTo(0.125, 2)
    expect(sketch.weight).toBeCloseTo(100 / Math.LN2, -1)
    for (let i = 0; i < 10_000; i += 1) sketch.record(900)
    expect(sketch.quantile(1e-9)).toBe(900)
  })

  it('that is merged with another one is as if it had seen the samples of both', () => {
    fc.assert(
      fc.property(amounts, amounts, amount, (a, b, x) => {
        const merged = sketchOf(a)
        merged.merge(sketchOf(b))
        expect(merged.weight).toBeCloseTo(a.length + b.length, 1)
        expect(merged.cdf(x)).toBeCloseTo(sketchOf([...a, ...b]).cdf(x), 3)
      }),
    )
  })

  it('gives shares of the sum: of smaller values, and of those alike', () => {
    const sketch = sketchOf([10, 20, 20, 50])
    expect(sketch.sharesAt(20).smaller).toBeCloseTo(0.1)
    expect(sketch.sharesAt(20).alike).toBeCloseTo(0.4)
    expect(sketch.sharesAt(30).smaller).toBeCloseTo(0.5)
    expect(sketch.sharesAt(1_000).smaller).toBeCloseTo(1)
  })

  it('expects of a value that exceeds x what those that do exceed it by', () => {
    const sketch = sketchOf([10, 20, 60])
    expect(sketch.meanResidual(0)).toBeCloseTo(30)
    expect(sketch.meanResidual(15)).toBeCloseTo(25)
    expect(sketch.meanResidual(60)).toBe(0)
  })
})

describe('samples of which a lower bound is known', () => {
  it('do not make the distribution look faster than it is', () => {
    const values = logNormal(20_000, 400, 0.8)
    const bounds = logNormal(20_000, 600, 0.5, 2)
    const sketch = new Sketch(layout)
    const ignoring = new Sketch(layout)
    for (const [i, value] of values.entries()) {
      const bound = bounds[i] ?? 0
      if (value <= bound) {
        sketch.record(value)
        ignoring.record(value)
      } else sketch.recordAtLeast(bound)
    }
    for (const x of [300, 600, 1_000]) expect(Math.abs(sketch.cdf(x) - exactCdf(values, x))).toBeLessThan(0.04)
    expect(ignoring.cdf(600) - exactCdf(values, 600)).toBeGreaterThan(0.1)
  })

  it('count as the bound where nothing greater is known, and never below it', () => {
    const sketch = sketchOf([100])
    sketch.recordAtLeast(700)
    expect(sketch.quantile(1)).toBe(700)
    sketch.recordAtLeast(300)
    expect(sketch.cdf(300)).toBeCloseTo(1 / 3)
    expect(sketch.weight).toBeCloseTo(3)
  })
})

describe('a sketch on the wire', () => {
  it('is tens of numbers, and nearly the same distribution', () => {
    fc.assert(
      fc.property(amounts, amount, (values, x) => {
        const sketch = sketchOf(values)
        const wire = sketch.toWire()
        const copy = wire && Sketch.fromWire(layout, JSON.parse(JSON.stringify(wire)))
        if (!wire || !copy) throw new Error('lost')
        expect(JSON.stringify(wire).length).toBeLessThan(400)
        expect(copy.weight / sketch.weight).toBeCloseTo(1, 2)
        // Nothing is known between two levels, nor within a bin.
        const [low, high] = [copy.cdf(x * 0.95 - 1), copy.cdf(x * 1.05 + 1)]
        expect(sketch.cdf(x)).toBeGreaterThan(low - 1 / 19)
        expect(sketch.cdf(x)).toBeLessThan(high + 1 / 19)
      }),
    )
  })

  it('keeps the tail, from which waiting times are taken', () => {
    const sketch = sketchOf(logNormal(20_000, 400, 0.8))
    const copy = Sketch.fromWire(layout, sketch.toWire() ?? { weight: 0, quantiles: [] })
    for (const q of [0.5, 0.9, 0.95, 0.99]) expect(Math.abs((copy?.quantile(q) ?? 0) / sketch.quantile(q) - 1)).toBeLessThan(0.03)
  })

  it('is refused where it is none', () => {
    const quantiles = wireLevels.map((_, i) => i)
    const broken = [
      { weight: -1, quantiles },
      { weight: Number.POSITIVE_INFINITY, quantiles },
      { weight: 5, quantiles: quantiles.slice(1) },
      { weight: 5, quantiles: quantiles.toReversed() },
      { weight: 5, quantiles: quantiles.with(3, Number.NaN) },
    ]
    expect(broken.map((wire) => Sketch.fromWire(layout, wire))).toEqual(broken.map(() => undefined))
    expect(Sketch.fromWire(layout, { weight: 5, quantiles })?.weight).toBeCloseTo(5)
  })
})
