import { describe, expect, it } from 'vitest'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { compareWithOracles, delays, draftOverOracle, usualCosts } from '../../../lab/bench/hat/draft-oracle.ts'
import type { ForcedAnswer, ForcedDraft } from '../../../lab/bench/hat/forced-drafts.ts'

/** A draft of 15 tokens whose guesses are right with `right` of their stated probability. */
function draft(random: Random, right: (probability: number) => number): ForcedDraft {
  const guesses = Array.from({ length: 15 }, () => ({ source: 'adapter' as const, probability: random.next() ** 0.5 }))
  const wrong = guesses.findIndex(({ probability }) => random.next() >= right(probability))
  return { steps: guesses.map((guess) => [guess]), accepted: wrong < 0 ? guesses.length : wrong }
}

function answers(right: (probability: number, answer: number) => number): ForcedAnswer[] {
  const random = seededRandom(11)
  return Array.from({ length: 12 }, (_, answer) => ({
    drafts: Array.from({ length: 80 }, () => draft(random, (probability) => right(probability, answer))),
    // The answers without loops, which the tests do not look at, would be computed too.
    looping: true,
  }))
}

describe('drafts that end by their gain, against the best fixed length in hindsight', () => {
  it.each([
    ['a drafter that knows how certain it is', 1.01, (p: number) => p],
    ['one that is far too certain', 1.02, (p: number) => 0.5 * p],
    ['one whose certainty says nothing', 1.08, () => 0.7],
    ['one that is right in every other answer', 1.08, (_: number, answer: number) => (answer % 2 === 0 ? 0.9 : 0.2)],
    ['one that is never right', 1.05, () => 0],
  ])('take hardly longer at any delay, also one that drifts, what is learned included: %s', (_, max, right) => {
    const rows = compareWithOracles(answers(right), usualCosts(8_192)).filter(({ answers }) => answers === 'all')
    expect(rows.map(({ delay }) => delay)).toEqual(Object.keys(delays))
    expect(draftOverOracle(rows)).toBeLessThanOrEqual(max)
    for (const { ownS, fixedS, clairvoyantS } of rows) {
      if (clairvoyantS === undefined) continue
      expect(clairvoyantS).toBeLessThanOrEqual(Math.min(ownS, fixedS) * (1 + 1e-9))
    }
  })
})
