import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { concatStates, firstNonFiniteRow, type States, sliceStates } from '../../../../core/wire/protocol/states.ts'
import { anyStates } from '../../../support/states.ts'

describe('states', () => {
  it('are the same after slicing anywhere and concatenating', () => {
    fc.assert(
      fc.property(anyStates(), fc.array(fc.nat({ max: 9 }), { maxLength: 4 }), (states, cuts) => {
        const at = [0, ...cuts.map((cut) => Math.min(cut, states.rows)).sort((a, b) => a - b), states.rows]
        const pieces = at.slice(1).map((to, i) => sliceStates(states, at[i]!, to))
        expect(concatStates(pieces, states.width)).toEqual(states)
      }),
    )
  })

  it('keep the order of rows, wide or not', () => {
    fc.assert(
      fc.property(fc.array(anyStates({ width: 3 }), { maxLength: 4 }), (blocks) => {
        const all = concatStates(blocks, 3)
        expect(rowsOf(all)).toEqual(blocks.flatMap(rowsOf))
      }),
    )
  })

  it('are copied by concat, so that the receive buffer can be reused', () => {
    const half = Uint16Array.of(1, 2)
    const all = concatStates([{ rows: 1, width: 2, half }], 2)
    half.fill(9)
    expect([...all.half]).toEqual([1, 2])
  })

  it('reject concatenation of different widths, and slices outside the block', () => {
    const states = { rows: 2, width: 2, half: new Uint16Array(4) }
    expect(() => concatStates([states], 3)).toThrow(RangeError)
    expect(() => sliceStates(states, 1, 3)).toThrow(RangeError)
    expect(() => sliceStates(states, -1, 1)).toThrow(RangeError)
    expect(() => sliceStates(states, 2, 1)).toThrow(RangeError)
  })
})

describe('the first non-finite row', () => {
  const finite = Uint16Array.of(0x3c00, 0xfbff, 0x0001, 0x7bff)

  it.each([
    ['none', finite, undefined],
    ['infinity', Uint16Array.of(0x3c00, 0xfbff, 0x7c00, 0), 1],
    ['minus infinity', Uint16Array.of(0xfc00, 0, 0, 0), 0],
    ['NaN', Uint16Array.of(0, 0, 0, 0x7e01), 1],
  ])('is found: %s', (_, half, row) => {
    expect(firstNonFiniteRow({ rows: 2, width: 2, half })).toBe(row)
  })

  it('considers the fp32 values of a wide row', () => {
    const half = Uint16Array.of(0x3c00, 0xfbff, 0x7c00, 0)
    const wide = (value: number) => ({ index: [1], values: Float32Array.of(value, 0) })
    expect(firstNonFiniteRow({ rows: 2, width: 2, half, wide: wide(70_000) })).toBeUndefined()
    expect(firstNonFiniteRow({ rows: 2, width: 2, half, wide: wide(Number.NaN) })).toBe(1)
  })
})

/** Each row as text: its halves, and its fp32 values where it is wide. */
function rowsOf(states: States): string[] {
  return Array.from({ length: states.rows }, (_, row) => {
    const half = states.half.subarray(row * states.width, (row + 1) * states.width)
    const at = states.wide?.index.indexOf(row) ?? -1
    const wide = at < 0 ? '' : states.wide?.values.subarray(at * states.width, (at + 1) * states.width).join()
    return `${half.join()}|${wide}`
  })
}
