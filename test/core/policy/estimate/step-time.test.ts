import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { median } from '../../../../core/policy/estimate/quantile.ts'
import { loadOf, type StepLoad, StepTime } from '../../../../core/policy/estimate/step-time.ts'

const load = fc
  .array(fc.record({ rows: fc.integer({ min: 1, max: 512 }), contextLength: fc.nat(4_096) }), { minLength: 1, maxLength: 16 })
  .map(loadOf)
const sample = fc.record({ load, seconds: fc.double({ min: 1e-5, max: 2, noNaN: true }) })
const learned = (samples: readonly { readonly load: StepLoad; readonly seconds: number }[]) => {
  const g = new StepTime()
  for (const { load, seconds } of samples) g.record(load, seconds)
  return g
}

describe('the time of a step', () => {
  it('is unknown before the first, and then that of the first', () => {
    const g = new StepTime()
    expect(g.at(loadOf([{ rows: 4, contextLength: 10 }]))).toBeUndefined()
    g.record(loadOf([{ rows: 4, contextLength: 10 }]), 0.02)
    expect(g.at(loadOf([{ rows: 4, contextLength: 10 }]))).toBeCloseTo(0.02, 3)
  })

  it('is never negative, nor less for more work, whatever was measured', () => {
    fc.assert(
      fc.property(fc.array(sample, { minLength: 1, maxLength: 60 }), load, load, (samples, a, more) => {
        const g = learned(samples)
        const both = { tokens: a.tokens + more.tokens, attended: a.attended + more.attended, cached: a.cached + more.cached }
        expect(g.at(a)!).toBeGreaterThanOrEqual(0)
        expect(g.at(both)!).toBeGreaterThanOrEqual(g.at(a)!)
      }),
    )
  })

  it('is found where it follows the form', () => {
    const coefficient = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(coefficient, coefficient, coefficient, coefficient, fc.infiniteStream(load), (a, b, c, d, loads) => {
        const seconds = ({ tokens, attended, cached }: StepLoad) =>
          1e-3 * (0.1 + a) + 1e-4 * b * tokens + 1e-7 * c * attended + 1e-6 * d * cached
        const g = new StepTime()
        for (let at = 0; at < 300; at += 1) {
          const next = loads.next().value
          g.record(next, seconds(next))
        }
        const errors = Array.from({ length: 20 }, () => loads.next().value).map(
          (next) => Math.abs(g.at(next)! - seconds(next)) / seconds(next),
        )
        expect(median(errors)).toBeLessThan(0.05)
      }),
      { numRuns: 30 },
    )
  })

  it('is hardly moved by one step that took ten times as long', () => {
    const step = (at: number) => loadOf([{ rows: 1 + (at % 8), contextLength: 100 + ((61 * at) % 400) }])
    const g = new StepTime()
    for (let at = 0; at < 100; at += 1) g.record(step(at), 2e-3 + 1e-6 * step(at).cached)
    const before = g.at(step(3))!
    g.record(step(3), 10 * before)
    expect(g.at(step(3))! / before).toBeLessThan(1.05)
  })

  it.each([3, 10, 0.2])('follows a machine that takes %f times as long within ten steps', (times) => {
    const step = (at: number) => loadOf([{ rows: 1 + (at % 8), contextLength: 100 + ((61 * at) % 400) }])
    const seconds = (at: number) => 2e-3 + 1e-6 * step(at).cached
    const g = new StepTime()
    for (let at = 0; at < 200; at += 1) g.record(step(at), seconds(at))
    for (let at = 200; at < 210; at += 1) g.record(step(at), times * seconds(at))
    expect(g.at(step(3))! / (times * seconds(3))).toBeCloseTo(1, 1)
  })

  it('takes no sample that is none', () => {
    const g = new StepTime()
    const one = loadOf([{ rows: 1, contextLength: 0 }])
    for (const seconds of [Number.NaN, Number.POSITIVE_INFINITY, -1]) expect(() => g.record(one, seconds)).toThrow(RangeError)
    expect(() => g.record({ ...one, tokens: 0 }, 1)).toThrow(RangeError)
    expect(() => g.record({ ...one, attended: Number.NaN }, 1)).toThrow(RangeError)
    g.record(one, 0)
    expect(g.at(one)).toBeUndefined()
  })

  it('is predicted within an eighth of those that a bridge has measured (median), which rows alone do not tell', () => {
    const file = new URL('../../../fixtures/steps/hat.json.gz', import.meta.url)
    const steps = JSON.parse(gunzipSync(readFileSync(file)).toString()) as [number, [number, number][]][]
    const error = (loadFor: (pieces: [number, number][]) => StepLoad) => {
      const g = new StepTime()
      const errors = steps.flatMap(([ms, pieces]) => {
        const load = loadFor(pieces)
        const predicted = g.at(load)
        g.record(load, ms / 1_000)
        return predicted === undefined ? [] : [Math.abs(1_000 * predicted - ms) / ms]
      })
      return median(errors)
    }
    const whole = (pieces: [number, number][]) => loadOf(pieces.map(([rows, contextLength]) => ({ rows, contextLength })))
    expect(error(whole)).toBeLessThan(0.125)
    expect(error((pieces) => ({ ...whole(pieces), attended: 0, cached: 0 }))).toBeGreaterThan(0.16)
  })
})
