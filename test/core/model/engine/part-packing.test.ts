import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attendedRows, packItems, slotsFor } from '../../../../core/model/engine/part-packing.ts'

const anyItem = fc.record({ rows: fc.integer({ min: 1, max: 9 }), past: fc.nat(99) }).chain(({ rows, past }) =>
  fc.record({
    rows: fc.constant(rows),
    past: fc.constant(past),
    select: fc.oneof(fc.constantFrom('all', 'last', 'none'), fc.array(fc.nat(rows - 1), { maxLength: 4 })),
  }),
)

describe('packing', () => {
  it('concatenates the items and returns the selected rows of each in its order', () => {
    fc.assert(
      fc.property(fc.array(anyItem, { minLength: 1, maxLength: 16 }), (items) => {
        const packing = packItems(items, 16)
        expect(packing.rows).toBe(items.reduce((sum, { rows }) => sum + rows, 0))
        items.forEach(({ rows, past, select }, slot) => {
          const start = items.slice(0, slot).reduce((sum, item) => sum + item.rows, 0)
          expect([packing.sizes[slot], packing.spread[start]]).toEqual([BigInt(rows), BigInt(start)])
          expect([packing.seqlens[slot], packing.totals[slot]]).toEqual([past + rows - 1, past + rows])
          const own = { all: Array.from({ length: rows }, (_, row) => row), last: [rows - 1], none: [] }
          const wanted = typeof select === 'string' ? own[select as keyof typeof own] : select
          expect([...packing.select.slice(...packing.returned[slot]!)]).toEqual(wanted.map((row) => BigInt(start + row)))
        })
      }),
    )
  })

  it('makes unused slots process the first row as sequences of length one', () => {
    const packing = packItems([{ rows: 3, past: 5, select: 'all' }], 4)
    expect([...packing.spread]).toEqual([0n, 1n, 2n, 0n, 0n, 0n])
    expect([...packing.sizes]).toEqual([3n, 1n, 1n, 1n])
    expect([...packing.seqlens]).toEqual([7, 0, 0, 0])
    expect([...packing.totals]).toEqual([8, 1, 1, 1])
  })

  it('repeats the last row of an item for attention, and keeps only the new rows of what it returns', () => {
    const items = [
      { rows: 1, attended: 2, past: 5, select: 'all' },
      { rows: 3, attended: 4, past: 0, select: 'last' },
    ] as const
    const packing = packItems(items, 4, 1)
    expect([...packing.spread]).toEqual([0n, 0n, 1n, 2n, 3n, 3n, 0n, 0n])
    expect([...packing.sizes]).toEqual([2n, 4n, 1n, 1n])
    expect([...packing.totals]).toEqual([7, 4, 1, 1])
    // Four new rows and one pad row.
    expect([packing.rows, ...packing.keep]).toEqual([5, 0n, 2n, 3n, 4n, 0n])
    expect([...packing.select]).toEqual([0n, 3n])
  })

  it.each([
    { past: 0, rows: 1, headDim: 64, attended: 2 },
    { past: 9, rows: 4, headDim: 64, attended: 4 },
    { past: 9, rows: 65, headDim: 64, attended: 66 },
    { past: 9, rows: 1, headDim: 256, attended: 56 },
    { past: 64, rows: 1, headDim: 256, attended: 2 },
  ])('attention reads $attended rows for $rows after $past with heads of $headDim', ({ past, rows, headDim, attended }) => {
    expect(attendedRows(past, rows, headDim, 2_048)).toBe(attended)
  })

  it('rejects selected rows that an item does not have', () => {
    expect(() => packItems([{ rows: 2, past: 0, select: [2] }], 1)).toThrow(RangeError)
    expect(() => packItems([{ rows: 2, past: 0, select: [-1] }], 1)).toThrow(RangeError)
  })

  it.each([
    [1, 1],
    [2, 2],
    [3, 4],
    [8, 8],
    [9, 16],
  ])('chooses for %i sequences the graph with %i slots', (needed, slots) => {
    expect(slotsFor(needed, [16, 1, 8, 2, 4])).toBe(slots)
  })

  it('rejects more sequences than any graph has slots', () => {
    expect(() => slotsFor(17, [1, 16])).toThrow(RangeError)
  })
})
