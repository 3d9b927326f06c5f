import { describe, expect, it } from 'vitest'
import { DraftBranches } from '../../../../core/policy/hat/draft-branches.ts'
import type { Guess } from '../../../../core/policy/hat/draft-chain.ts'
import { thresholdRule } from '../../../../core/policy/hat/draft-rounds.ts'

const limits = thresholdRule(0.6, 4)
const guess = (probability = 1, { alternatives = 0, endsText = false } = {}): Guess => ({
  source: 'adapter',
  probability,
  endsText,
  alternatives: Array.from({ length: alternatives }, () => false),
})

/** The pending token has row 3, the draft rows 4 and 5, with one alternative to the first token and two to the second. */
const draft = { guesses: [guess(1, { alternatives: 1 }), guess(1, { alternatives: 2 })], ended: true }

/** A step in which each branch gets the same guess. */
function step(branches: DraftBranches, of: Guess = guess()) {
  const after = branches.ask(limits.limit, 99)
  return {
    after,
    ...branches.take(
      after.map(() => [of]),
      limits,
    ),
  }
}

describe('drafting ahead', () => {
  it('extends the last token and each alternative to it, all in one step', () => {
    const branches = new DraftBranches(draft, 3, 9)
    expect(branches.alternatives).toEqual([
      { row: 5, rank: 0 },
      { row: 5, rank: 1 },
    ])
    expect(branches.parents).toEqual([4, 4])
    expect(step(branches)).toEqual({ after: [5, 6, 7], taken: [1, 1, 1], parents: [5, 6, 7] })
    expect(step(branches)).toEqual({ after: [8, 9, 10], taken: [1, 1, 1], parents: [8, 9, 10] })
    expect(branches.rows).toBe(14)
  })

  it('has prepared a draft for a correction of the last token by an alternative, and for a predicted bonus token', () => {
    const branches = new DraftBranches(draft, 3, 9)
    step(branches, guess(0.8))
    step(branches, guess(0.9))
    // The second alternative.
    expect(branches.preparedAfter(7)).toEqual({
      rows: [7, 10, 13],
      chain: { guesses: [guess(0.8), guess(0.9)], ended: false },
    })
    expect(branches.preparedAfter(8)).toEqual({ rows: [8, 11], chain: { guesses: [guess(0.9)], ended: false } })
  })

  it('ends each branch as a draft ends: at low confidence, at the length limit, at an end of text, or without a guess', () => {
    const unsure = new DraftBranches(draft, 3, 9)
    step(unsure, guess(0.5))
    expect(unsure.ask(limits.limit, 99)).toEqual([])
    expect(unsure.preparedAfter(6).chain).toEqual({ guesses: [guess(0.5)], ended: true })
    // It ended with the token that is now pending: the next draft has no tokens yet, and is not complete.
    expect(unsure.preparedAfter(8)).toEqual({ rows: [8], chain: { guesses: [], ended: false } })

    const long = new DraftBranches(draft, 3, 9)
    for (let at = 0; at < limits.limit; at++) expect(step(long).after).toHaveLength(3)
    // The branch of the draft gets one more token, because its first one becomes the pending token.
    expect(step(long).after).toHaveLength(1)
    expect(long.ask(limits.limit, 99)).toEqual([])
    expect(long.preparedAfter(6).chain.guesses).toHaveLength(limits.limit)
    expect(long.preparedAfter(8).chain.guesses).toHaveLength(limits.limit)

    const ending = { guesses: [{ ...guess(1, { endsText: true }), alternatives: [true, false] }], ended: true }
    expect(new DraftBranches(ending, 3, 9).ask(4, 99)).toEqual([6])
    const guessless = new DraftBranches({ guesses: [], ended: true }, 3, 9)
    expect([guessless.alternatives, guessless.ask(4, 99)]).toEqual([[], []])
  })

  it('takes several guesses at once, up to the one that ends a branch, and none of those that are not proposed', () => {
    const branches = new DraftBranches(draft, 3, 9)
    branches.ask(limits.limit, 99)
    expect(branches.take([[guess(), guess(0.1), guess()], [guess()], []], limits)).toEqual({
      taken: [2, 1, 0],
      parents: [5, 8, 6],
    })
    expect(branches.ask(limits.limit, 99)).toEqual([10])
    expect(branches.preparedAfter(8).rows).toEqual([8, 9])
  })

  it('stops where its time is over, or where its branches might grow beyond the context', () => {
    const short = new DraftBranches(draft, 3, 1)
    expect([short.context, step(short).parents.length, short.context, short.steps]).toEqual([5, 3, 6, 1])
    expect(short.ask(4, 99)).toEqual([])
    // Eight rows, and thirteen more at most; after a step eleven rows, and ten more.
    const branches = new DraftBranches(draft, 3, 9)
    expect([branches.ask(4, 20), branches.ask(4, 21)]).toEqual([[], [5, 6, 7]])
    step(branches)
    expect(branches.ask(4, 21)).toHaveLength(3)
    expect(branches.ask(4, 20)).toEqual([])
  })
})
