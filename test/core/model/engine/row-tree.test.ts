import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RowTree } from '../../../../core/model/engine/row-tree.ts'

/** Any tree: for each row an earlier one, or -1. */
const parents = fc
  .array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { maxLength: 24 })
  .map((shares) => shares.map((share, row) => Math.floor(share * (row + 1)) - 1))

/** The path to a row, itself included, from the list of parents alone. */
function wayTo(row: number, tree: readonly number[]): number[] {
  return row < 0 ? [] : [...wayTo(tree[row]!, tree), row]
}

describe('a tree of rows', () => {
  it('gives each row the position of its path and attention to that path only', () => {
    fc.assert(
      fc.property(parents, fc.nat(), (tree, at) => {
        const from = tree.length === 0 ? 0 : at % tree.length
        const rows = RowTree.empty.extended(from, tree.slice(0, from)).extended(tree.length - from, tree.slice(from))
        expect(rows.length).toBe(tree.length)
        expect(rows.parentsFrom(from)).toEqual(tree.slice(from))
        const positions = rows.positionsFrom(from)
        const bias = rows.biasFrom(from)
        for (let row = from; row < tree.length; row++) {
          const way = wayTo(row, tree)
          expect(Number(positions[row - from])).toBe(way.length - 1)
          const read = [...bias.subarray((row - from) * tree.length, (row - from + 1) * tree.length)]
          expect(read.flatMap((added, key) => (added === 0 ? [key] : []))).toEqual(way)
          expect(read.every((added) => added === 0 || added < -1e6)).toBe(true)
        }
      }),
    )
  })

  it('is linear as far as each row follows the one before', () => {
    fc.assert(
      fc.property(parents, fc.nat(), (tree, at) => {
        const straight = tree.findIndex((parent, row) => parent !== row - 1)
        const line = straight < 0 ? tree.length : straight
        const rows = RowTree.empty.extended(tree.length, tree)
        expect([rows.line, rows.branches]).toEqual([line, line < tree.length])
        const length = tree.length === 0 ? 0 : at % tree.length
        const cut = rows.truncated(length)
        expect([cut.length, cut.line]).toEqual([length, Math.min(length, line)])
      }),
    )
    expect(RowTree.lineOf(3).extended(2)).toMatchObject({ line: 5, length: 5 })
  })

  it('rejects parents that do not exist', () => {
    const rows = RowTree.lineOf(3)
    expect(() => rows.extended(1, [3])).toThrow(RangeError)
    expect(() => rows.extended(1, [-2])).toThrow(RangeError)
    expect(() => rows.extended(2, [2])).toThrow(RangeError)
    expect(() => rows.truncated(4)).toThrow(RangeError)
    expect(rows.extended(2, [2, 3]).length).toBe(5)
  })
})
