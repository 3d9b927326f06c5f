import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maxDraftTokens, type RoundCosts, tokenPays, type UsualRound } from '../../../../core/policy/hat/draft-gain.ts'

const share = fc.double({ min: 0.01, max: 1, noNaN: true })
const seconds = fc.double({ min: 0, max: 1e6, noNaN: true })
const rounds: fc.Arbitrary<UsualRound> = fc.record({
  tokens: fc.double({ min: 1, max: 17, noNaN: true }),
  drafted: fc.double({ min: 0, max: 16, noNaN: true }),
  waited: fc.double({ min: 0, max: 16, noNaN: true }),
})
const delays: fc.Arbitrary<RoundCosts> = fc.record({
  fixedS: seconds,
  draftS: fc.option(seconds, { nil: undefined }),
  rowS: seconds,
})

describe('whether another drafted token pays', () => {
  it('is never less likely with a longer delay, a cheaper token, a likelier one, or rounds that gain less', () => {
    fc.assert(
      fc.property(share, seconds, rounds, delays, share, seconds, (chance, costS, round, costs, less, moreS) => {
        if (!tokenPays(chance, costS, round, costs)) return
        expect(tokenPays(chance, costS, round, { ...costs, fixedS: costs.fixedS + moreS })).toBe(true)
        expect(tokenPays(chance, less * costS, round, costs)).toBe(true)
        expect(tokenPays(Math.min(1, chance / less), costS, round, costs)).toBe(true)
        expect(tokenPays(chance, costS, { ...round, tokens: Math.max(1, less * round.tokens) }, costs)).toBe(true)
      }),
      { examples: [[1, 0, { tokens: 1, drafted: 0, waited: 0 }, { fixedS: 0, draftS: undefined, rowS: 0 }, 1, 1e6]] },
    )
  })

  it('is the break-even of the round: the token’s share of the rate that the session has without it', () => {
    // Two tokens in 40 + 2 · 4 + 3 · 1 ms: a token of 5 ms has to gain 0.196 tokens.
    const costs = { fixedS: 0.04, draftS: 0.004, rowS: 0.001 }
    const round = { tokens: 2, drafted: 3, waited: 2 }
    expect([0.197, 0.195].map((chance) => tokenPays(chance, 0.005, round, costs))).toEqual([true, false])
  })

  it('never holds for a token that cannot be right', () => {
    fc.assert(
      fc.property(seconds, rounds, delays, (costS, round, costs) => !tokenPays(0, costS, round, costs)),
      {
        examples: [[0, { tokens: 1, drafted: 0, waited: 0 }, { fixedS: 0, draftS: 0, rowS: 0 }]],
      },
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
