import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type MergeTerms, mergeSentences } from '../../../../core/policy/pice/merge-sentences.ts'
import { packedS } from '../../../../core/policy/pice/speeds.ts'
import type { SmallModelSpeed } from '../../../../core/policy/pice/state.ts'

const words = [9, 2, 7, 4, 5]
/** As long as the group with the most words. */
const longest = (of: readonly number[]) => (groups: readonly (readonly number[])[]) =>
  Math.max(...groups.map((group) => group.reduce((sum, at) => sum + of[at]!, 0)))
const merge = (own: Partial<MergeTerms>, of: readonly number[] = words) =>
  mergeSentences(of, { ...{ maxGroups: 99, budgetS: 0, maxSlowdown: Number.POSITIVE_INFINITY, secondsOf: longest(of) }, ...own })

describe('merging of sentences', () => {
  it('pairs the shortest with the longest, and so on, while the latest group is in time', () => {
    expect(merge({ budgetS: 8 })).toEqual([[0], [1], [2], [3], [4]])
    // 2 + 9, 4 + 7, and 5 alone.
    expect(merge({ budgetS: 11 })).toEqual([[0, 1], [2, 3], [4]])
    // 5 + 11, and 11 alone.
    expect(merge({ budgetS: 16 })).toEqual([
      [2, 3, 4],
      [0, 1],
    ])
    expect(merge({ budgetS: 27 })).toEqual([[0, 1, 2, 3, 4]])
  })

  it('goes on until memory holds the groups, in time or not', () => {
    expect(merge({ maxGroups: 3 })).toHaveLength(3)
    expect(merge({ maxGroups: 2 })).toHaveLength(2)
    expect(merge({ maxGroups: 1 })).toHaveLength(1)
  })

  it('stops where merged groups would take the device longer than allowed', () => {
    const speed: SmallModelSpeed = {
      ...{ model: 'm', loadS: 0, ttftS: 0, tpotS: 1, ability: undefined },
      // Four sequences together are no faster than two.
      parallel: [
        [2, 2],
        [4, 2],
      ],
    }
    const equal = [5, 5, 5, 5, 5, 5, 5, 5]
    const secondsOf = (groups: readonly (readonly number[])[]) =>
      packedS(
        speed,
        groups.map((group) => 5 * group.length),
      )
    expect(merge({ budgetS: 1_000, maxSlowdown: 1, secondsOf }, equal)).toHaveLength(2)
    expect(merge({ budgetS: 1_000, secondsOf }, equal)).toHaveLength(1)
  })

  it('covers each sentence exactly once, and is late only where memory demands it', () => {
    const terms = fc.record({
      maxGroups: fc.integer({ min: 1, max: 20 }),
      budgetS: fc.integer({ min: 0, max: 300 }),
      maxSlowdown: fc.constantFrom(1, 2, Number.POSITIVE_INFINITY),
    })
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 40 }), terms, (lengths, own) => {
        const groups = merge(own, lengths)
        expect(groups.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, at) => at))
        expect(groups.length).toBeLessThanOrEqual(own.maxGroups)
        for (const group of groups) expect(group).toEqual([...group].sort((a, b) => a - b))
        const isForced = 2 * groups.length > own.maxGroups
        if (groups.length < lengths.length && !isForced) expect(longest(lengths)(groups)).toBeLessThanOrEqual(own.budgetS)
      }),
    )
  })
})

describe('the time of packed sequences', () => {
  const speed: SmallModelSpeed = {
    ...{ model: 'm', loadS: 9, ttftS: 2, tpotS: 1, ability: undefined },
    parallel: [
      [2, 1.6],
      [4, 2],
    ],
  }

  it('is that of ever fewer sequences as they end', () => {
    // 3 tokens of both in steps of 2 / 1.6 s, then 4 of the longer alone.
    expect(packedS(speed, [7, 3])).toBeCloseTo(2 + 3 * (2 / 1.6) + 4)
    expect(packedS(speed, [5, 5, 5, 5])).toBeCloseTo(2 + (5 * 4) / 2)
    expect(packedS(speed, [])).toBe(2)
  })
})
