import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeHalves, encodeHalves } from '../../../../core/kit/base/half.ts'

const allHalves = Uint16Array.from({ length: 65_536 }, (_, bits) => bits)
const allValues = new Float32Array(allHalves.length)
decodeHalves(allHalves, allValues)

/** By the definition of IEEE binary16. */
function definedValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >>> 10) & 31
  const mantissa = bits & 1023
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return exponent === 0 ? (sign * mantissa) / 2 ** 24 : sign * (1 + mantissa / 1024) * 2 ** (exponent - 15)
}

describe('decoding halves', () => {
  it('is exact for all 65,536 halves', () => {
    expect(allValues).toEqual(Float32Array.from(allHalves, definedValue))
  })
})

describe('encoding halves', () => {
  it('is the inverse of decoding for every finite half', () => {
    const finite = allHalves.filter((bits) => (bits & 0x7c00) !== 0x7c00)
    const encoded = new Uint16Array(finite.length)
    expect(encodeHalves(Float32Array.from(finite, definedValue), encoded)).toBe(-1)
    expect(encoded).toEqual(finite)
  })

  it('rounds to the nearest half, ties to even', () => {
    fc.assert(
      fc.property(fc.float({ min: -65_504, max: 65_504, noNaN: true }), (value) => {
        const [bits] = encodeOne(value)
        const distance = Math.abs(definedValue(bits) - value)
        for (const neighbour of [bits - 1, bits + 1]) {
          const other = definedValue(neighbour)
          if (!Number.isFinite(other) || (neighbour & 0x8000) !== (bits & 0x8000)) continue
          const otherDistance = Math.abs(other - value)
          expect(otherDistance).toBeGreaterThanOrEqual(distance)
          if (otherDistance === distance) expect(bits & 1).toBe(0)
        }
      }),
      { numRuns: 2000, examples: [[1 + 2 ** -11], [1 + 3 * 2 ** -11], [2 ** -25], [3 * 2 ** -26], [2 ** -14 - 2 ** -26], [-0]] },
    )
  })

  it('returns the index of the first value beyond fp16', () => {
    const values = Float32Array.of(1, 65_519, 65_520, 1e9)
    expect(encodeHalves(values, new Uint16Array(4))).toBe(2)
    expect(encodeHalves(Float32Array.of(-65_519, Number.NaN), new Uint16Array(2))).toBe(1)
    expect(encodeHalves(Float32Array.of(Number.NEGATIVE_INFINITY), new Uint16Array(1))).toBe(0)
  })
})

function encodeOne(value: number): [number] {
  const halves = new Uint16Array(1)
  expect(encodeHalves(Float32Array.of(value), halves)).toBe(-1)
  return [halves[0] ?? 0]
}
