import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeHalves } from '../../../../core/kit/base/half.ts'
import { decodeFrame, decodeStates, encodeFrame, headerBytes, rowBytes } from '../../../../core/wire/protocol/frame.ts'
import { fromInt8, toInt8 } from '../../../../core/wire/protocol/int8.ts'
import type { States } from '../../../../core/wire/protocol/states.ts'
import { anyStates } from '../../../support/states.ts'

const floatsOf = (half: Uint16Array) => {
  const floats = new Float32Array(half.length)
  decodeHalves(half, floats)
  return floats
}
const overWire = (states: States, base: number) => {
  const bytes = encodeFrame({ type: 'rows', session: 1n, epoch: 1, seq: 1, base }, states, { wire: 'int8' })
  return { bytes, states: decodeStates(decodeFrame(bytes), states.width) }
}

describe('rows as int8', () => {
  it('differ by at most half a step of their row, plus fp16 rounding', () => {
    fc.assert(
      fc.property(anyStates(), (states) => {
        const { rows, width, half } = states
        const back = floatsOf(fromInt8(toInt8(states), width))
        const floats = floatsOf(half)
        for (let row = 0; row < rows; row++) {
          const values = [...floats.subarray(row * width, (row + 1) * width)]
          if (!values.every(Number.isFinite)) continue
          const largest = Math.max(...values.map(Math.abs))
          for (const [i, value] of values.entries()) {
            const error = Math.abs(back[row * width + i]! - value)
            expect(error).toBeLessThanOrEqual(largest / 254 + largest * 2 ** -11 + 2 ** -24)
          }
        }
      }),
    )
  })

  it('take one byte per value and four bytes per row on the wire', () => {
    const states = { rows: 3, width: 64, half: new Uint16Array(192).fill(0x3c00) }
    const { bytes } = overWire(states, 5)
    expect(bytes.byteLength).toBe(headerBytes + 3 * rowBytes('int8', 64))
    expect(rowBytes('int8', 64)).toBe(68)
  })

  it('keep the row of position 0, and rows beyond fp16, exact', () => {
    fc.assert(
      fc.property(anyStates(), (states) => {
        if (states.rows === 0) return
        const { states: back } = overWire(states, 0)
        expect(back.wide!.index).toEqual([...new Set([0, ...(states.wide?.index ?? [])])])
        const first = back.wide!.values.subarray(0, states.width)
        if (states.wide?.index[0] === 0) expect(first).toEqual(states.wide.values.subarray(0, states.width))
        else expect(first).toEqual(floatsOf(states.half.subarray(0, states.width)))
        expect(overWire(states, 1).states.wide).toEqual(states.wide)
      }),
    )
  })

  it('can hold the largest fp16 values', () => {
    for (const largest of [0x7bff, 0xfbff]) {
      const half = Uint16Array.of(largest, 0x3c00)
      expect(overWire({ rows: 1, width: 2, half }, 3).states.half[0]).toBe(largest)
    }
  })

  it.each([Number.NaN, -1, 1e30, Number.POSITIVE_INFINITY])('with the scale %d are rejected', (scale) => {
    const { bytes } = overWire({ rows: 2, width: 4, half: new Uint16Array(8).fill(0x3c00) }, 7)
    new DataView(bytes.buffer).setFloat32(headerBytes + 4, scale, true)
    expect(() => decodeStates(decodeFrame(bytes), 4)).toThrow(/row 1 has the scale/)
  })

  it('that are truncated are rejected', () => {
    const { bytes } = overWire({ rows: 2, width: 4, half: new Uint16Array(8) }, 7)
    expect(() => decodeStates(decodeFrame(bytes.subarray(0, -1)), 4)).toThrow(/2 rows of width 4 need 16 bytes/)
  })
})
