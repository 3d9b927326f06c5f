import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Candidate, confidence, mostConfident } from '../../../../core/policy/pice/confidence.ts'

const sketch = 'mix flour eggs'
const candidate = (fields: Partial<Candidate> = {}): Candidate => ({
  ...{ text: 'Mix the flour with the eggs.', tokens: 8, meanLog2Probability: -1 },
  ...fields,
})
const weights = { probability: 0.5, length: 0.2, rouge: 'recall' as const }

describe('the confidence of an expansion', () => {
  it('is Eq. 3', () => {
    // α1 · 2^-1 + α2 · 8/16 + the rest · 1
    expect(confidence(candidate(), sketch, 16, weights)).toBeCloseTo(0.5 * 0.5 + 0.2 * 0.5 + 0.3)
    const f1 = (2 * 3) / (3 + 6)
    expect(confidence(candidate(), sketch, 16, { ...weights, rouge: 'f1' })).toBeCloseTo(0.5 * 0.5 + 0.2 * 0.5 + 0.3 * f1)
  })

  it('grows with the length up to the expected one', () => {
    const of = (tokens: number) => confidence(candidate({ tokens }), sketch, 16, weights)
    expect(of(16)).toBeGreaterThan(of(15))
    expect(of(99)).toBe(of(16))
  })

  it('leaves the probabilities out where there are none', () => {
    expect(confidence(candidate({ meanLog2Probability: null }), sketch, 16, weights)).toBeCloseTo((0.2 * 0.5 + 0.3) / 0.5)
    expect(confidence(candidate({ meanLog2Probability: null }), sketch, 16, { ...weights, probability: 1, length: 0 })).toBe(0)
  })

  it('stays between 0 and 1', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    const any = fc.record({
      text: fc.string(),
      tokens: fc.nat(),
      meanLog2Probability: fc.option(fc.double({ min: -60, max: 0, noNaN: true })),
    })
    fc.assert(
      fc.property(any, fc.string(), fc.integer({ min: 1 }), share, share, (one, line, expected, probability, rest) => {
        const length = (1 - probability) * rest
        const value = confidence(one, line, expected, { probability, length, rouge: 'recall' })
        expect(value).toBeGreaterThanOrEqual(0)
        expect(value).toBeLessThanOrEqual(1 + 1e-9)
      }),
    )
  })
})

describe('the most confident candidate', () => {
  it('is the first of those with the highest confidence', () => {
    const [poor, good, same] = [candidate({ text: 'Eggs.' }), candidate(), candidate()]
    const chosen = mostConfident([poor, good, same], sketch, 16, weights)
    expect(chosen.candidate).toBe(good)
    expect(chosen.confidence).toBe(confidence(good, sketch, 16, weights))
  })

  it('is chosen without probabilities unless all candidates have them', () => {
    const sure = candidate({ text: 'Mix them.', meanLog2Probability: -0.1 })
    const complete = candidate({ meanLog2Probability: null })
    expect(mostConfident([sure, complete], sketch, 16, weights).candidate).toBe(complete)
    const unsure = candidate({ meanLog2Probability: -3 })
    expect(mostConfident([sure, unsure], sketch, 16, weights).candidate).toBe(sure)
    const poorer = candidate({ text: 'Mix flour.', meanLog2Probability: null })
    expect(mostConfident([poorer, unsure], sketch, 16, weights).candidate).toBe(unsure)
  })

  it('does not exist without candidates', () => {
    expect(() => mostConfident([], sketch, 16)).toThrow(RangeError)
  })
})
