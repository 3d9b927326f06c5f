import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { ForgettingHistogram, type HistogramLayout, wireLevels } from '../../../../core/policy/estimate/forgetting-histogram.ts'

const layout: HistogramLayout = { min: 1, max: 2 ** 20, perOctave: 16, halfLife: 1e6 }
const amount = fc.integer({ min: 0, max: 1e9 }).map((thousandths) => thousandths / 1_000)
const amounts = fc.array(amount, { minLength: 1, maxLength: 200 })

function histogramOf(values: readonly number[], halfLife = layout.halfLife): ForgettingHistogram {
  const histogram = new ForgettingHistogram({ ...layout, halfLife })
  for (const value of values) histogram.record(value)
  return histogram
}

/** Log-normal, as times to the first token are. */
function logNormal(count: number, median: number, sigma: number, seed = 1): number[] {
  const random = seededRandom(seed)
  const gauss = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  return Array.from({ length: count }, () => median * Math.exp(sigma * gauss()))
}

const exactCdf = (values: readonly number[], x: number): number => values.filter((value) => value <= x).length / values.length

describe('a histogram of samples', () => {
  it('has a rising F, and F⁻¹(q) is the smallest x with F(x) ≥ q', () => {
    fc.assert(
      fc.property(amounts, amount, amount, fc.double({ min: 1e-3, max: 1, noNaN: true }), (values, a, b, q) => {
        const histogram = histogramOf(values)
        expect(histogram.cdf(Math.min(a, b))).toBeLessThanOrEqual(histogram.cdf(Math.max(a, b)))
        const x = histogram.quantile(q)
        expect(histogram.cdf(x)).toBeGreaterThanOrEqual(q - 1e-6)
        expect(histogram.cdf(x - 1e-6 * x - 1e-9)).toBeLessThanOrEqual(q + 1e-6)
      }),
    )
  })

  it('never errs by more than the samples of one bin, of values within 4.4 % of each other', () => {
    fc.assert(
      fc.property(amounts, amount, (values, x) => {
        const alike = values.filter((value) => Math.abs(value - x) <= 0.045 * Math.max(value, x) + 1).length
        expect(Math.abs(histogramOf(values).cdf(x) - exactCdf(values, x))).toBeLessThanOrEqual(alike / values.length + 1e-3)
      }),
    )
  })

  it('is close to a smooth distribution', () => {
    const values = logNormal(20_000, 400, 0.8)
    const histogram = histogramOf(values)
    for (const x of [100, 250, 400, 700, 1_500]) expect(histogram.cdf(x)).toBeCloseTo(exactCdf(values, x), 2)
    expect(histogram.mean).toBeCloseTo(values.reduce((sum, value) => sum + value, 0) / values.length, 0)
  })

  it('keeps a value that always recurs as a step', () => {
    const histogram = histogramOf([500, 500, 500])
    expect([histogram.cdf(499.99), histogram.cdf(500)]).toEqual([0, 1])
    expect([histogram.quantile(0.01), histogram.quantile(1)]).toEqual([500, 500])
  })

  it('knows nothing before its first sample', () => {
    const histogram = histogramOf([])
    expect([histogram.cdf(1e9), histogram.cdf(Number.POSITIVE_INFINITY)]).toEqual([0, 1])
    expect([histogram.quantile(0), histogram.quantile(0.5)]).toEqual([0, Number.POSITIVE_INFINITY])
    expect([histogram.weight, histogram.mean, histogram.meanResidual(0), histogram.toWire()]).toEqual([0, 0, 0, undefined])
    expect(histogram.sharesAt(7)).toEqual({ smaller: 0, alike: 1 })
  })

  it('leaves out what is no amount', () => {
    const histogram = histogramOf([Number.NaN, -5, Number.POSITIVE_INFINITY, 3])
    histogram.recordAtLeast(Number.NaN)
    histogram.recordAtLeast(-1)
    expect(histogram.weight).toBeCloseTo(1)
    expect(histogram.quantile(1)).toBe(3)
  })

  it('follows a change, and forgets what was before it, however many samples it has seen', () => {
    const histogram = histogramOf([...Array(50_000).fill(100), ...Array(300).fill(900)], 100)
    expect(histogram.cdf(500)).toBeCloseTo(0.125, 2)
    expect(histogram.weight).toBeCloseTo(100 / Math.LN2, -1)
    for (let i = 0; i < 10_000; i += 1) histogram.record(900)
    expect([histogram.quantile(Number.MIN_VALUE), histogram.quantile(1)]).toEqual([900, 900])
    expect(histogram.mean).toBeCloseTo(900)
  })

  it('stands for as many samples at any time, once it has seen enough', () => {
    const [histogram, spread] = [histogramOf([], 20), histogramOf([], 20)]
    for (let i = 0; i < 5_000; i += 1) {
      histogram.record(i % 2 ? 100 : 300)
      spread.record(100 * 1.1 ** (i % 60))
      if (i < 1_000) continue
      expect(spread.weight).toBeCloseTo(20 / Math.LN2 - 0.5, 1)
      expect(histogram.weight).toBeCloseTo(20 / Math.LN2 - 0.5, 1)
      expect(Math.abs(histogram.mean - 200)).toBeLessThan(4)
      expect(Math.abs(histogram.sharesAt(300).smaller - 0.25)).toBeLessThan(0.02)
    }
  })

  it('that is merged with another one is as if it had seen the samples of both', () => {
    fc.assert(
      fc.property(amounts, amounts, amount, (a, b, x) => {
        const merged = histogramOf(a)
        merged.merge(histogramOf(b))
        expect(merged.weight).toBeCloseTo(a.length + b.length, 1)
        expect(merged.cdf(x)).toBeCloseTo(histogramOf([...a, ...b]).cdf(x), 3)
      }),
    )
  })

  it('counts the samples of another one as its own, however many each has seen', () => {
    const [old, young] = [histogramOf(Array(5_000).fill(100), 50), histogramOf([900, 900, 900], 50)]
    const weight = old.weight + young.weight
    const copy = histogramOf(Array(5_000).fill(100), 50)
    copy.merge(young)
    young.merge(old)
    for (const merged of [copy, young]) {
      expect(merged.weight).toBeCloseTo(weight, 6)
      expect(merged.cdf(500)).toBeCloseTo(old.weight / weight, 6)
      expect(merged.mean).toBeCloseTo((100 * old.weight + 900 * (weight - old.weight)) / weight, 6)
    }
  })

  it('counts greater values than its greatest as that', () => {
    const histogram = histogramOf([1e300])
    expect([histogram.quantile(1), histogram.mean]).toEqual([layout.max, layout.max])
  })

  it('gives shares of the sum: of smaller values, and of those alike', () => {
    const histogram = histogramOf([10, 20, 20, 50])
    expect(histogram.sharesAt(20).smaller).toBeCloseTo(0.1)
    expect(histogram.sharesAt(20).alike).toBeCloseTo(0.4)
    expect(histogram.sharesAt(30).smaller).toBeCloseTo(0.5)
    expect(histogram.sharesAt(1_000).smaller).toBeCloseTo(1)
  })

  it('expects of a value that exceeds x what those that do exceed it by', () => {
    const histogram = histogramOf([10, 20, 60])
    expect(histogram.meanResidual(0)).toBeCloseTo(30)
    expect(histogram.meanResidual(15)).toBeCloseTo(25)
    expect(histogram.meanResidual(60)).toBe(0)
  })

  it('expects the same within a bin, where values are spread evenly', () => {
    const histogram = histogramOf(Array.from({ length: 41 }, (_, i) => 1_000 + i))
    expect(histogram.meanResidual(1_010)).toBeCloseTo(15, 0)
  })
})

describe('the next sample', () => {
  it('exceeds a quantile of those before it no more often than the quantile says, however few they are', () => {
    // Each in a bin of its own.
    const values = Array.from({ length: 40 }, (_, i) => 10 * 1.1 ** i)
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 40 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (count, part) => {
        const samples = values.slice(0, count)
        // Up to the greatest one's.
        const q = (part * (count - 1)) / count
        const exceeding = samples.filter(
          (next) => next > histogramOf(samples.filter((value) => value !== next)).predictive.quantile(q),
        )
        expect(exceeding.length / count).toBeLessThanOrEqual(1 - q + 1e-9)
      }),
    )
  })

  it('is greater than all with a probability that falls with their number', () => {
    const above = (count: number) => 1 - histogramOf(Array(count).fill(500)).predictive.cdf(1_000)
    expect([1, 9, 99].map(above)).toEqual([expect.closeTo(0.5, 4), expect.closeTo(0.1, 4), expect.closeTo(0.01, 4)])
    const { predictive } = histogramOf(Array(9).fill(500))
    expect([predictive.quantile(0.89), predictive.quantile(0.95), predictive.cdf(Number.POSITIVE_INFINITY)]).toEqual([
      500, 1_000, 1,
    ])
  })
})

describe('samples of which a lower bound is known', () => {
  it('do not make the distribution look faster than it is', () => {
    const values = logNormal(20_000, 400, 0.8)
    const bounds = logNormal(20_000, 600, 0.5, 2)
    const histogram = new ForgettingHistogram(layout)
    const ignoring = new ForgettingHistogram(layout)
    for (const [i, value] of values.entries()) {
      const bound = bounds[i] ?? 0
      if (value <= bound) {
        histogram.record(value)
        ignoring.record(value)
      } else histogram.recordAtLeast(bound)
    }
    for (const x of [300, 600, 1_000]) expect(Math.abs(histogram.cdf(x) - exactCdf(values, x))).toBeLessThan(0.04)
    expect(ignoring.cdf(600) - exactCdf(values, 600)).toBeGreaterThan(0.1)
  })

  it('count as twice the bound where nothing greater is known, and never below it', () => {
    const histogram = histogramOf([100])
    histogram.recordAtLeast(700)
    expect(histogram.quantile(1)).toBe(1_400)
    histogram.recordAtLeast(300)
    expect(histogram.cdf(300)).toBeCloseTo(1 / 3)
    expect(histogram.weight).toBeCloseTo(3)
  })

  it('count as one sample, in that part of a bin too that is above the bound', () => {
    const histogram = histogramOf(
      Array.from({ length: 4_000 }, (_, i) => 1_000 + ((37 * i) % 41)),
      50,
    )
    const { weight } = histogram
    const mean = histogram.mean * weight
    histogram.recordAtLeast(1_030)
    expect(histogram.weight).toBeCloseTo(weight, 2)
    expect(histogram.mean * histogram.weight).toBeCloseTo((mean + 1_035) / 2 ** (1 / 50), -1)
  })

  it('are spread as the samples of others, where those know more', () => {
    const histogram = histogramOf([100])
    histogram.recordAtLeast(300, histogramOf([200, 500, 900]))
    expect(histogram.cdf(400)).toBeCloseTo(0.5)
    expect(histogram.cdf(600)).toBeCloseTo(0.75)
    expect(histogram.weight).toBeCloseTo(2)
  })
})

describe('a histogram on the wire', () => {
  it('is tens of numbers, and nearly the same distribution', () => {
    fc.assert(
      fc.property(amounts, amount, (values, x) => {
        const histogram = histogramOf(values)
        const wire = histogram.toWire()
        const copy = wire && ForgettingHistogram.fromWire(layout, JSON.parse(JSON.stringify(wire)))
        if (!wire || !copy) throw new Error('lost')
        expect(JSON.stringify(wire).length).toBeLessThan(400)
        expect(copy.weight / histogram.weight).toBeCloseTo(1, 2)
        // Nothing is known between two levels, nor within a bin.
        const [low, high] = [copy.cdf(x * 0.95 - 1), copy.cdf(x * 1.05 + 1)]
        expect(histogram.cdf(x)).toBeGreaterThan(low - 1 / 19)
        expect(histogram.cdf(x)).toBeLessThan(high + 1 / 19)
      }),
    )
  })

  it('keeps the tail, from which waiting times are taken', () => {
    const histogram = histogramOf(logNormal(20_000, 400, 0.8))
    const copy = ForgettingHistogram.fromWire(layout, histogram.toWire() ?? { weight: 0, quantiles: [] })
    for (const q of [0.5, 0.9, 0.95, 0.99])
      expect(Math.abs((copy?.quantile(q) ?? 0) / histogram.quantile(q) - 1)).toBeLessThan(0.03)
    expect(Math.abs((copy?.mean ?? 0) / histogram.mean - 1)).toBeLessThan(0.01)
  })

  it('is refused where it is none', () => {
    const quantiles = wireLevels.map((_, i) => i)
    const broken = [
      { weight: -1, quantiles },
      { weight: Number.NaN, quantiles },
      { weight: 5, quantiles: quantiles.slice(1) },
      { weight: 5, quantiles: quantiles.toReversed() },
      { weight: 5, quantiles: quantiles.with(3, Number.NaN) },
    ]
    expect(broken.map((wire) => ForgettingHistogram.fromWire(layout, wire))).toEqual(broken.map(() => undefined))
    expect(ForgettingHistogram.fromWire(layout, { weight: 5, quantiles })?.weight).toBeCloseTo(5)
  })

  it('weighs no more than a histogram of its own, and has no greater values, whatever it claims', () => {
    const recent = { ...layout, halfLife: 100 }
    const own = histogramOf(Array(10_000).fill(7), 100)
    const claimed = { weight: Number.MAX_VALUE, quantiles: wireLevels.map((_, i) => (i < 5 ? i : Number.MAX_VALUE)) }
    const copy = ForgettingHistogram.fromWire(recent, claimed)
    expect(copy?.weight).toBeCloseTo(own.weight, 3)
    expect(copy?.quantile(1)).toBe(layout.max)
    expect(copy?.mean).toBeLessThanOrEqual(layout.max)
  })
})
