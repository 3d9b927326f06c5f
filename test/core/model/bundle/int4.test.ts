import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { int4BlockSizes } from '../../../../core/model/bundle/architecture.ts'
import { quantizeInt4 } from '../../../../core/model/bundle/int4.ts'

const blockOf = (size: number) => fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: size, maxLength: size })

const squaredError = (values: number[], stored: ArrayLike<number>) =>
  values.reduce((sum, value, i) => sum + (value - (stored[i] ?? 0)) ** 2, 0)

function roundedByExtreme(values: number[]): number[] {
  const extreme = values.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0)
  if (Math.abs(extreme) < 1e-30) return values.map(() => 0)
  return values.map((value) => (Math.min(15, Math.floor((value * -8) / extreme + 8.5)) - 8) * (extreme / -8))
}

describe.each(int4BlockSizes)('int4 quantisation in blocks of %i', (blockSize) => {
  const block = blockOf(blockSize)

  function quantize(values: number[]) {
    const stored = Float32Array.from(values)
    const codes = new Uint8Array(values.length / 2)
    const scales = new Float32Array(values.length / blockSize)
    quantizeInt4(stored, blockSize, codes, scales)
    return { stored, codes, scales }
  }

  it('errs no more than with a scale that keeps the extreme exact', () => {
    fc.assert(
      fc.property(block, (values) => {
        const { stored } = quantize(values)
        const plain = roundedByExtreme(values)
        // The scale is rounded to fp32: an exact block may lose so much of its power.
        const rounding = 1e-13 * squaredError(values, [])
        expect(squaredError(values, stored)).toBeLessThanOrEqual(squaredError(values, plain) * (1 + 1e-5) + rounding + 1e-30)
      }),
    )
  })

  it('clips an extreme value that alone would cost the others their steps', () => {
    const values = Array.from({ length: blockSize }, (_, i) => (i === 0 ? -8.6 : (i % 15) - 7))
    expect(squaredError(values, quantize(values).stored)).toBeLessThan(squaredError(values, roundedByExtreme(values)) / 2)
  })

  it.each([3e38, 65_504, 1e-29])('takes values of %f', (extreme) => {
    const { stored } = quantize(Array.from({ length: blockSize }, (_, i) => extreme * Math.cos(i)))
    for (const [i, value] of stored.entries()) expect(Math.abs(value / extreme - Math.cos(i))).toBeLessThan(0.1)
  })

  it('stores even positions in low nibbles and returns the dequantised values', () => {
    fc.assert(
      fc.property(block, block, (first, second) => {
        const { stored, codes, scales } = quantize([...first, ...second])
        for (const [i, value] of stored.entries()) {
          const byte = codes[i >>> 1] ?? 0
          const code = i % 2 === 0 ? byte & 15 : byte >>> 4
          expect(value).toBe(Math.fround((code - 8) * (scales[Math.floor(i / blockSize)] ?? 0)))
        }
      }),
    )
  })

  it('stores zeros for a block of zeros or of values too small for a scale', () => {
    for (const value of [0, 1e-38, -1e-40])
      expect(quantize(Array(blockSize).fill(value)).stored.every((v) => Math.abs(v) === 0)).toBe(true)
  })
})
