import { describe, expect, it } from 'vitest'
import { createLocalTtft, createTokenCounts, expectedRemaining } from '../../../../core/policy/disco/estimates.ts'

describe('the tokens that an answer still needs', () => {
  it('are those of the answers that were longer than it is', () => {
    const lengths = createTokenCounts()
    for (const tokens of [20, 40, 200]) lengths.record(tokens)
    expect(expectedRemaining(lengths, 0)).toBeCloseTo(86.7, 0)
    expect(expectedRemaining(lengths, 50)).toBeCloseTo(150)
    expect(expectedRemaining(lengths, 50, 30)).toBe(30)
  })

  it("are the paper's limit before an answer has been seen, and as many again beyond what is known, at most those allowed", () => {
    expect(expectedRemaining(createTokenCounts(), 28)).toBe(100)
    expect(expectedRemaining(createTokenCounts(), 500)).toBe(500)
    expect(expectedRemaining(createTokenCounts(), 500, 12)).toBe(12)
  })
})

describe("the device's time to the first token", () => {
  it('is linear in the length of the prompt', () => {
    const fit = createLocalTtft()
    for (const tokens of [10, 80, 30, 200]) fit.record(tokens, 12 * tokens + 70)
    expect(fit.line?.slope).toBeCloseTo(12)
    expect(fit.line?.intercept).toBeCloseTo(70)
  })
})
