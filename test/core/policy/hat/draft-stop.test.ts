import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { defaultDraftThreshold, draftEnds, maxDraftTokens } from '../../../../core/policy/hat/draft-stop.ts'

const limits = { threshold: defaultDraftThreshold, limit: 4 }

describe('ending a draft', () => {
  it.each([
    { what: 'continues while the draft model is sure', probabilities: [0.9], ends: false },
    { what: 'continues at the threshold itself', probabilities: [0.6], ends: false },
    { what: 'continues after one that was unsure', probabilities: [0.1, 0.6], ends: false },
    { what: 'ends with the token that fell under the threshold', probabilities: [0.9, 0.599], ends: true },
    { what: 'ends at the length limit', probabilities: [1, 1, 1, 1], ends: true },
  ])('$what', ({ probabilities, ends }) => {
    expect(draftEnds(probabilities, limits)).toBe(ends)
  })

  it('ends by the pace where it is known: the chance of all tokens counts, and no threshold', () => {
    const pace = { tokensPerS: 20, rightShare: 0.8, tokenS: 0.01 }
    expect(draftEnds([0.5, 0.51], { ...limits, pace })).toBe(false)
    expect(draftEnds([0.5, 0.49], { ...limits, pace })).toBe(true)
    expect(draftEnds([1, 1, 1, 1], { ...limits, pace })).toBe(true)
  })

  it('ends every draft, at its first token at the earliest', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 20, maxLength: 20 }), (probabilities) => {
        const length = probabilities.findIndex((_, at) => draftEnds(probabilities.slice(0, at + 1), limits)) + 1
        expect(length).toBeGreaterThanOrEqual(1)
        expect(length).toBeLessThanOrEqual(limits.limit)
        expect(probabilities.slice(0, length - 1).every((probability) => probability >= limits.threshold)).toBe(true)
      }),
    )
  })
})

describe('the maximum draft length', () => {
  it.each([
    { what: 'is the limit far from the end of answer and context', limit: 8, remaining: 100, position: 10, context: 512, max: 8 },
    { what: 'leaves one token of the answer for the verification', limit: 8, remaining: 3, position: 10, context: 512, max: 2 },
    { what: 'is 0 for the last token', limit: 8, remaining: 1, position: 10, context: 512, max: 0 },
    { what: 'ends at the last position', limit: 8, remaining: 100, position: 509, context: 512, max: 2 },
    { what: 'is 0 at the last position', limit: 8, remaining: 100, position: 511, context: 512, max: 0 },
  ])('$what', ({ limit, remaining, position, context, max }) => {
    expect(maxDraftTokens(limit, remaining, position, context)).toBe(max)
  })
})
