import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { int4BlockSizes } from '../../../../core/model/bundle/architecture.ts'
import { quantizeInt8 } from '../../../../core/model/bundle/int8.ts'

describe.each(int4BlockSizes)('int8 quantisation in blocks of %i', (blockSize) => {
  const block = fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: blockSize, maxLength: blockSize })

  it('errs by at most half a step, has the extreme at 127 steps, and returns the values of its codes', () => {
    fc.assert(
      fc.property(block, (values) => {
        const stored = Float32Array.from(values)
        const codes = new Uint8Array(blockSize)
        const scales = new Float32Array(1)
        quantizeInt8(stored, blockSize, codes, scales)
        const step = scales[0]!
        const extreme = Math.max(...values.map(Math.abs))
        expect(step * 127).toBeCloseTo(extreme < 1e-30 ? 0 : extreme, 3)
        for (const [i, value] of values.entries()) {
          expect(Math.abs(stored[i]! - value)).toBeLessThanOrEqual((step / 2) * (1 + 1e-5) + 1e-30)
          expect(stored[i]! + 0).toBe(Math.fround((codes[i]! - 128) * step) + 0)
        }
      }),
    )
  })
})
