import { describe, expect, it } from 'vitest'
import { DraftBranches } from '../../../../core/policy/hat/draft-branches.ts'
import type { Guess } from '../../../../core/policy/hat/draft-chain.ts'

const limits = { threshold: 0.6, limit: 4 }
const guess = (probability = 1, { alternatives = 0, endsText = false } = {}): Guess => ({
  probability,
  endsText,
  alternatives: Array.from({ length: alternatives }, () => false),
})

/** The pending token has row 3, the draft rows 4 and 5, with one alternative to the first token and two to the second. */
const draft = { guesses: [guess(1, { alternatives: 1 }), guess(1, { alternatives: 2 })], ended: true }

/** A step in which each branch gets the same guess. */
function step(branches: DraftBranches, of: Guess = guess()) {
  const after = branches.ask()
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
    const branches = new DraftBranches(draft, 3, 'last')
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
    const branches = new DraftBranches(draft, 3, 'last')
    step(branches, guess(0.8))
    step(branches, guess(0.9))
    // The second alternative.
    expect(branches.preparedAfter(7)).toEqual({
      rows: [7, 10, 13],
      chain: { guesses: [guess(0.8), guess(0.9)], ended: false },
    })
    expect(branches.preparedAfter(8)).toEqual({ rows: [8, 11], chain: { guesses: [guess(0.9)], ended: false } })
  })

  it('may branch at each token, which prepares for corrections of earlier ones', () => {
    const branches = new DraftBranches(draft, 3, 'each')
    expect(branches.alternatives.map(({ row }) => row)).toEqual([4, 5, 5])
    expect(branches.parents).toEqual([3, 4, 4])
    expect(step(branches).after).toHaveLength(4)
    expect(branches.preparedAfter(6).rows).toEqual([6, 10])
    expect(branches.preparedAfter(7).rows).toEqual([7, 11])
  })

  it('ends each branch as a draft ends: at low confidence, at the length limit, at an end of text, or without a guess', () => {
    const unsure = new DraftBranches(draft, 3, 'last')
    step(unsure, guess(0.5))
    expect(unsure.ask()).toEqual([])
    expect(unsure.preparedAfter(6).chain).toEqual({ guesses: [guess(0.5)], ended: true })
    // It ended with the token that is now pending: the next draft has no tokens yet, and is not complete.
    expect(unsure.preparedAfter(8)).toEqual({ rows: [8], chain: { guesses: [], ended: false } })

    const long = new DraftBranches(draft, 3, 'last')
    for (let at = 0; at < limits.limit; at++) expect(step(long).after).toHaveLength(3)
    // The branch of the draft gets one more token, because its first one becomes the pending token.
    expect(step(long).after).toHaveLength(1)
    expect(long.ask()).toEqual([])
    expect(long.preparedAfter(6).chain.guesses).toHaveLength(limits.limit)
    expect(long.preparedAfter(8).chain.guesses).toHaveLength(limits.limit)

    const ending = { guesses: [{ ...guess(1, { endsText: true }), alternatives: [true, false] }], ended: true }
    expect(new DraftBranches(ending, 3, 'last').ask()).toEqual([6])
    const guessless = new DraftBranches({ guesses: [], ended: true }, 3, 'last')
    expect([guessless.alternatives, guessless.ask()]).toEqual([[], []])
  })

  it('takes several guesses at once, up to the one that ends a branch, and none of those that are not proposed', () => {
    const branches = new DraftBranches(draft, 3, 'last')
    branches.ask()
    expect(branches.take([[guess(), guess(0.1), guess()], [guess()], []], limits)).toEqual({
      taken: [2, 1, 0],
      parents: [5, 8, 6],
    })
    expect(branches.ask()).toEqual([10])
    expect(branches.preparedAfter(8).rows).toEqual([8, 9])
  })

  it('knows how many rows it may still add', () => {
    const branches = new DraftBranches(draft, 3, 'last')
    expect(branches.maxRows(4)).toBe(5 + 4 + 4)
    step(branches)
    expect(branches.maxRows(4)).toBe(4 + 3 + 3)
    step(branches, guess(0.1))
    expect(branches.maxRows(4)).toBe(0)
  })
})
