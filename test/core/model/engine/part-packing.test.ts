import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  attendedRows,
  groupedBias,
  groupedPositions,
  packGrouped,
  packItems,
  slotsFor,
} from '../../../../core/model/engine/part-packing.ts'

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

  it('of grouped heads gives each row its own heads back, and the group their keys and values', () => {
    const small = fc.record({ rows: fc.integer({ min: 1, max: 4 }), past: fc.integer({ min: 1, max: 99 }) })
    const shape = fc.record({ group: fc.constantFrom(2, 4), kvHeads: fc.integer({ min: 1, max: 3 }) })
    fc.assert(
      fc.property(fc.array(small, { minLength: 2, maxLength: 5 }), shape, fc.nat(1), (given, { group, kvHeads }, padRows) => {
        const items = given.map((item) => ({ ...item, select: 'all' as const }))
        const packing = packGrouped(items, 8, padRows, { group, kvHeads })
        const [heads, width] = [group * kvHeads, (group + 2) * kvHeads]
        expect([...packing.sizes.slice(0, items.length)]).toEqual(items.map(({ rows }) => BigInt(group * rows)))
        const read = Array.from({ length: packing.spread.length / (3 * kvHeads) }, (_, at) =>
          [...packing.spread.slice(at * 3 * kvHeads, (at + 1) * 3 * kvHeads)].map(Number),
        )
        expect(read.length).toBe(Number(packing.sizes.reduce((sum, size) => sum + size, 0n)))
        // Attention over one key returns the value: of each read row, the keys and values are those of its packed row.
        for (const row of read) {
          const packed = Math.floor(row[0]! / width)
          const own = Array.from({ length: 2 * kvHeads }, (_, head) => packed * width + heads + head)
          expect(row.slice(kvHeads)).toEqual(own)
        }
        // What is kept of the queries that were read are the queries of the packed rows, in order.
        const queries = read.flatMap((row) => row.slice(0, kvHeads))
        const total = items.reduce((sum, { rows }) => sum + rows, 0)
        const wanted = Array.from({ length: (total + padRows) * heads }, (_, at) => {
          const row = Math.floor(at / heads)
          return (row < total ? row : 0) * width + (at % heads)
        })
        expect([...packing.keep].map((at) => queries[Number(at)])).toEqual(wanted)
      }),
    )
  })

  it('of grouped heads has each row attend to the rows before it and to itself, once', () => {
    expect([...groupedPositions(7, 2, 2)]).toEqual([7n, 8n, 7n, 8n])
    const bias = groupedBias(3, 2, 2)
    const visible = Array.from({ length: 4 }, (_, row) => {
      // The operator itself masks what follows a row.
      const seen = [...bias.subarray(row * 7, row * 7 + 3 + row + 1)]
      return seen.flatMap((value, key) => (value === 0 ? [key] : []))
    })
    expect(visible).toEqual([
      [0, 1, 2, 3],
      [0, 1, 2, 3, 4],
      [0, 1, 2, 3],
      [0, 1, 2, 3, 4],
    ])
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
