import { describe, expect, it } from 'vitest'
import { emptyChain, extended, isComplete } from '../../../../core/policy/hat/draft-chain.ts'
import { thresholdRule } from '../../../../core/policy/hat/draft-rounds.ts'

const limits = thresholdRule(0.6, 3)
const guess = (probability: number, endsText = false) => ({ source: 'adapter' as const, probability, endsText, alternatives: [] })

describe('a draft', () => {
  it('takes guesses up to the one that ends it: an uncertain one, an end of text, or the last that is allowed', () => {
    const lengths = [
      [guess(0.9), guess(0.5), guess(0.9)],
      [guess(0.9, true), guess(0.9)],
      [guess(0.9), guess(0.9), guess(0.9), guess(0.9)],
    ].map((guesses) => extended(emptyChain, guesses, limits))
    expect(lengths.map((chain) => [chain.guesses.length, chain.ended])).toEqual([
      [2, true],
      [1, true],
      [3, true],
    ])
    expect(extended(emptyChain, [guess(0.9)], limits)).toEqual({ guesses: [guess(0.9)], ended: false })
  })

  it('ends where there is no guess', () => {
    expect(extended({ guesses: [guess(0.9)], ended: false }, [], limits)).toEqual({ guesses: [guess(0.9)], ended: true })
  })

  it('is complete at its limit, and by a rule that is stricter than the one by which it was drafted ahead', () => {
    expect(isComplete(emptyChain, limits)).toBe(false)
    expect(isComplete(emptyChain, { ...limits, limit: 0 })).toBe(true)
    const ahead = { guesses: [guess(0.9)], ended: false }
    expect(isComplete(ahead, limits)).toBe(false)
    expect(isComplete(ahead, thresholdRule(0.95, 3))).toBe(true)
  })
})
