import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Sequence, StepItem } from '../../../../core/model/engine/contract.ts'
import { rowsOf, stepPieces } from '../../../../core/model/engine/step-pieces.ts'

const sequence = {} as Sequence
const selects = (rows: number): fc.Arbitrary<StepItem['select']> =>
  fc.oneof(fc.constantFrom('all' as const, 'last' as const, 'none' as const), fc.subarray([...Array(rows).keys()]))

/** The rows that an item returns, by their place among its own. */
function returned(item: StepItem): number[] {
  const { select } = item
  const all = [...Array(rowsOf(item)).keys()]
  return select === 'all' ? all : select === 'last' ? all.slice(-1) : select === 'none' ? [] : [...select]
}

it('are the rows of an item in order, with the same parents, of which the same are returned', () => {
  const items = fc.integer({ min: 1, max: 40 }).chain((rows) =>
    fc.record({
      ids: fc.constant([...Array(rows).keys()].map((row) => row + 100)),
      parents: fc.option(fc.constant([...Array(rows).keys()].map((row) => row - 1)), { nil: undefined }),
      select: selects(rows),
    }),
  )
  fc.assert(
    fc.property(items, fc.integer({ min: 1, max: 12 }), (given, maxRows) => {
      const item = { ...given, sequence }
      const pieces = stepPieces(item, maxRows)
      expect(pieces.every((piece) => rowsOf(piece) >= 1 && rowsOf(piece) <= maxRows)).toBe(true)
      expect(pieces.flatMap((piece) => ('ids' in piece ? piece.ids : []))).toEqual(given.ids)
      if (given.parents) expect(pieces.flatMap(({ parents }) => parents ?? [])).toEqual(given.parents)
      expect(pieces.flatMap((piece, at) => returned(piece).map((row) => row + at * maxRows))).toEqual(returned(item))
    }),
  )
})

it('cannot return rows in another order', () => {
  expect(() => stepPieces({ sequence, ids: [1, 2, 3], select: [2, 0] }, 2)).toThrow(RangeError)
})
