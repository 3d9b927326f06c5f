import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { StateRows } from '../../../../core/model/draft/state-rows.ts'
import { concatStates, type States, sliceStates } from '../../../../core/wire/protocol/states.ts'
import { anyStates } from '../../../support/states.ts'

const width = 3
const steps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('append' as const), states: anyStates({ width, maxRows: 40 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('truncate' as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
    },
  ),
  { maxLength: 12 },
)

describe('the rows of a stream', () => {
  it('are the bytes that were appended and not truncated, including wide rows', () => {
    fc.assert(
      fc.property(steps, fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(9), (script, share, first) => {
        const rows = new StateRows(width, first)
        let expected: States = { rows: 0, width, half: new Uint16Array(0) }
        for (const step of script) {
          if (step.kind === 'append') {
            rows.append(step.states)
            expected = concatStates([expected, step.states], width)
          } else {
            const length = Math.floor(step.share * expected.rows)
            rows.truncate(first + length)
            expected = concatStates([sliceStates(expected, 0, length)], width)
          }
          expect(rows.length).toBe(first + expected.rows)
        }
        const from = Math.floor(share * expected.rows)
        const rest = concatStates([sliceStates(expected, from, expected.rows)], width)
        expect(rows.slice(first + from, rows.length)).toEqual(rest)
      }),
    )
  })

  it('are copied, so that later changes do not affect a slice', () => {
    const rows = new StateRows(1)
    rows.append({ rows: 2, width: 1, half: Uint16Array.of(1, 2) })
    const slice = rows.slice(0, 2)
    rows.truncate(1)
    rows.append({ rows: 1, width: 1, half: Uint16Array.of(9) })
    expect([...slice.half]).toEqual([1, 2])
    expect([...rows.slice(0, 2).half]).toEqual([1, 9])
  })

  it('cannot be read or truncated before their first position', () => {
    const rows = new StateRows(1, 4)
    rows.append({ rows: 2, width: 1, half: Uint16Array.of(1, 2) })
    expect([...rows.slice(5, 6).half]).toEqual([2])
    expect(() => rows.slice(3, 5)).toThrow(RangeError)
    expect(() => rows.truncate(3)).toThrow(RangeError)
  })

  it('cannot be read or truncated beyond their end', () => {
    const rows = new StateRows(1)
    rows.append({ rows: 2, width: 1, half: Uint16Array.of(1, 2) })
    expect(() => rows.slice(1, 3)).toThrow(RangeError)
    expect(() => rows.truncate(3)).toThrow(RangeError)
  })
})
