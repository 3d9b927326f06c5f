import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { int4BlockSizes } from '../../../../core/model/bundle/architecture.ts'
import { quantizeInt4 } from '../../../../core/model/bundle/int4.ts'

const blockOf = (size: number) => fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: size, maxLength: size })

describe.each(int4BlockSizes)('int4 quantisation in blocks of %i', (blockSize) => {
  const block = blockOf(blockSize)

  function quantize(values: number[]) {
    const stored = Float32Array.from(values)
    const codes = new Uint8Array(values.length / 2)
    const scales = new Float32Array(values.length / blockSize)
    quantizeInt4(stored, blockSize, codes, scales)
    return { stored, codes, scales }
  }

  it('errs by at most half a step, or one step for values of the opposite sign to the extreme', () => {
    fc.assert(
      fc.property(block, (values) => {
        const { stored, scales } = quantize(values)
        const step = Math.abs(scales[0] ?? 0)
        for (const [i, value] of values.entries()) {
          const clips = value / (scales[0] ?? 1) > 7.5
          expect(Math.abs((stored[i] ?? 0) - value)).toBeLessThanOrEqual(step * (clips ? 1 : 0.5) * (1 + 1e-5) + 1e-30)
        }
      }),
    )
  })

  it('is exact for the extreme value of a block of either sign', () => {
    fc.assert(
      fc.property(block, (values) => {
        const { stored } = quantize(values)
        const extreme = values.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0)
        const kept = Math.max(...Array.from(stored, Math.abs))
        expect(kept).toBeCloseTo(Math.abs(extreme) < 1e-30 ? 0 : Math.abs(extreme), 3)
      }),
    )
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
