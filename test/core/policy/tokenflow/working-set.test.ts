import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { workingSetSize } from '../../../../core/policy/tokenflow/working-set.ts'

const limits = { maxRequests: 100, damping: 0.5 }

describe('the working set', () => {
  it.each([
    // Eq. 5: 40 − 0.5 · (40 − 10).
    [400, 10, 10, 25],
    [400, 10, 40, 40],
    [405, 10, 39, 40],
    // Eq. 4 and W_max.
    [5_000, 10, 100, 100],
    [Number.POSITIVE_INFINITY, 10, 0, 50],
    [5, 10, 0, 1],
  ])('of %d bytes for requests of %d while %d run is %d', (memoryBytes, requestBytes, running, size) => {
    expect(workingSetSize(memoryBytes, requestBytes, running, limits)).toBe(size)
  })

  it('lies between the requests that run and those that fit', () => {
    const anyDamping = fc.double({ min: 0, max: 0.99, noNaN: true })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.nat(200), anyDamping, (memoryBytes, running, damping) => {
        const size = workingSetSize(memoryBytes, 10, running, { maxRequests: 100, damping })
        const fitting = Math.min(100, Math.floor(memoryBytes / 10))
        expect(size).toBeGreaterThanOrEqual(Math.max(1, Math.min(running, fitting)))
        expect(size).toBeLessThanOrEqual(Math.max(1, running, fitting))
      }),
    )
  })
})
