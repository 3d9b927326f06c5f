import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LookupIndex, type NgramLengths } from '../../../../core/model/draft/lookup-index.ts'

const indexOf = (ids: readonly number[], lengths: NgramLengths = { shortest: 1, longest: 3 }) => {
  const index = new LookupIndex(lengths)
  for (const id of ids) index.push(id)
  return index
}

/** The definition: a scan of the whole text for each length. */
function scan(ids: readonly number[], { shortest, longest }: NgramLengths) {
  for (let length = Math.min(longest, ids.length); length >= shortest; length--) {
    const suffix = ids.slice(-length)
    for (let end = ids.length - 1; end >= length; end--)
      if (suffix.every((id, at) => ids[end - length + at] === id)) return { length, end }
  }
  return undefined
}

const anyLengths = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.nat(3))
  .map(([shortest, more]) => ({ shortest, longest: shortest + more }))
/** Few different tokens, so that n-grams repeat. */
const text = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 60 })

describe('looking up the previous occurrence of the end of a text', () => {
  it.each([
    { what: 'finds the longest n-gram', ids: [1, 2, 3, 7, 9, 3, 8, 1, 2, 3], length: 3, after: [7, 9, 3] },
    { what: 'falls back to shorter ones', ids: [5, 3, 8, 1, 2, 3], length: 1, after: [8, 1, 2] },
    { what: 'prefers the latest occurrence', ids: [4, 1, 4, 2, 4], length: 1, after: [2, 4] },
    { what: 'returns the rest of the text after an overlapping occurrence', ids: [1, 2, 1, 2, 1, 2], length: 3, after: [1, 2] },
  ])('$what', ({ ids, length, after }) => {
    const index = indexOf(ids)
    const match = index.match()!
    expect(match.length).toBe(length)
    expect(index.after(match, 3)).toEqual(after)
  })

  it.each([
    { what: 'in an empty text', ids: [] },
    { what: 'if the last token is new', ids: [1, 2, 3] },
  ])('finds nothing $what', ({ ids }) => {
    expect(indexOf(ids).match()).toBeUndefined()
  })

  it('equals a scan of the whole text after any additions and truncations', () => {
    const edits = fc.array(fc.record({ added: text, keptShare: fc.double({ min: 0, max: 1, noNaN: true }) }), { maxLength: 6 })
    fc.assert(
      fc.property(anyLengths, edits, (lengths, script) => {
        const index = new LookupIndex(lengths)
        let ids: number[] = []
        for (const { added, keptShare } of script) {
          for (const id of added) index.push(id)
          ids = [...ids, ...added]
          expect(index.match()).toEqual(scan(ids, lengths))
          ids = ids.slice(0, Math.floor(keptShare * ids.length))
          index.truncate(ids.length)
          expect(index.match()).toEqual(scan(ids, lengths))
          expect(index.length).toBe(ids.length)
        }
      }),
      { numRuns: 300 },
    )
  })

  it('returns only continuations that are in the text', () => {
    fc.assert(
      fc.property(text, anyLengths, fc.integer({ min: 1, max: 10 }), (ids, lengths, count) => {
        const index = indexOf(ids, lengths)
        const match = index.match()
        if (!match) return
        expect(ids.slice(match.end - match.length, match.end)).toEqual(ids.slice(-match.length))
        const after = index.after(match, count)
        expect(after).toEqual(ids.slice(match.end, match.end + count))
        expect(after.length).toBeGreaterThan(0)
      }),
    )
  })

  it('rejects invalid n-gram lengths, and truncation to more tokens than it has', () => {
    expect(() => new LookupIndex({ shortest: 0, longest: 3 })).toThrow(RangeError)
    expect(() => new LookupIndex({ shortest: 3, longest: 2 })).toThrow(RangeError)
    expect(() => indexOf([1, 2]).truncate(3)).toThrow(RangeError)
  })
})
