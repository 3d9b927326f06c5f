import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  effectiveWeight,
  effectiveWeighting,
  qualityOfService,
  readingExperience,
  tokenWeight,
} from '../../../../core/policy/tokenflow/quality.ts'

/** Tokens that arrive every `gapMs`, from `firstMs` on. */
const every = (gapMs: number, count: number, firstMs = 0) => Array.from({ length: count }, (_, j) => firstMs + j * gapMs)

describe('the weight of a token', () => {
  it.each([
    [0, 1],
    [10, 1],
    [12.5, 0.75],
    [15, 0.5],
    [20, 0],
    [90, 0],
  ])('with %d of 100 tokens unread is %d', (unread, weight) => {
    expect(tokenWeight(unread, effectiveWeighting(100))).toBeCloseTo(weight, 12)
    expect(effectiveWeight(unread, 100)).toBeCloseTo(weight, 12)
  })
})

describe('the experience of a reader', () => {
  it('counts every token fully that arrives as fast as it is read', () => {
    expect(readingExperience({ tokensPerS: 10, requestedMs: 0, sentMs: every(100, 50, 700) })).toEqual({
      tokens: 50,
      weightedTokens: 50,
      ttftMs: 700,
      stalls: 0,
      stalledMs: 0,
    })
  })

  it('counts a fifth of the tokens at most that arrive all at once', () => {
    // 11 fully, the 9 after them by a tenth less each.
    expect(readingExperience({ tokensPerS: 10, requestedMs: 0, sentMs: every(0, 100) }).weightedTokens).toBeCloseTo(15.5, 9)
  })

  it('stalls where tokens arrive half as fast as they are read', () => {
    expect(readingExperience({ tokensPerS: 10, requestedMs: 0, sentMs: every(200, 11) })).toMatchObject({
      stalls: 10,
      stalledMs: 1_000,
      weightedTokens: 11,
    })
  })

  it('has neither TTFT nor tokens where none arrived', () => {
    const nothing = { tokens: 0, weightedTokens: 0, ttftMs: undefined, stalls: 0, stalledMs: 0 }
    expect(readingExperience({ tokensPerS: 10, requestedMs: 5, sentMs: [] })).toEqual(nothing)
  })

  it('is never better for tokens that arrive later, apart from their weight', () => {
    const gaps = fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(gaps, fc.nat(59), fc.integer({ min: 1, max: 5_000 }), (between, from, delayMs) => {
        let atMs = 0
        const sentMs = between.map((gapMs) => (atMs += gapMs))
        const later = sentMs.map((ms, j) => (j < from ? ms : ms + delayMs))
        const [early, late] = [sentMs, later].map((sent) =>
          readingExperience({ tokensPerS: 8, requestedMs: 0, sentMs: sent }),
        ) as [ReturnType<typeof readingExperience>, ReturnType<typeof readingExperience>]
        expect(late.ttftMs! + late.stalledMs).toBeGreaterThanOrEqual(early.ttftMs! + early.stalledMs - 1e-6)
        expect(late.weightedTokens).toBeGreaterThanOrEqual(early.weightedTokens - 1e-6)
        expect(late.weightedTokens).toBeLessThanOrEqual(late.tokens)
      }),
    )
  })
})

describe('quality of service', () => {
  const penalties = { ttftPerS: 2, stallPerS: 5 }

  it('is the weighted tokens less the penalties, per second', () => {
    const answer = { tokens: 20, weightedTokens: 15, ttftMs: 1_500, stalls: 1, stalledMs: 400 }
    expect(qualityOfService([answer, answer], 10, penalties)).toBeCloseTo((2 * (15 - 3 - 2)) / 10, 12)
  })

  it('penalises an answer without tokens for the whole run', () => {
    const nothing = { tokens: 0, weightedTokens: 0, ttftMs: undefined, stalls: 0, stalledMs: 0 }
    expect(qualityOfService([nothing], 10, penalties)).toBe(-2)
  })
})
