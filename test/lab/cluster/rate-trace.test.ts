import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { type RateTrace, randomWalk, rateAt, scaledTo, servedMs, shifted } from '../../../lab/cluster/rate-trace.ts'

const traces = fc.record({
  intervalMs: fc.integer({ min: 1, max: 50 }),
  bytesPerS: fc.array(fc.integer({ min: 1_000, max: 1_000_000 }), { minLength: 1, maxLength: 8 }),
})

describe('a link whose rate varies', () => {
  it('serves bytes at the rates of their intervals', () => {
    const trace: RateTrace = { intervalMs: 10, bytesPerS: [1_000, 3_000] }
    expect(servedMs(trace, 0, 5)).toBe(5)
    expect(servedMs(trace, 0, 10)).toBe(10)
    expect(servedMs(trace, 5, 5 + 30 + 4)).toBe(24)
    expect(servedMs(trace, 7, 0)).toBe(7)
  })

  it('serves two frames in sequence as fast as both at once', () => {
    const bytes = fc.integer({ min: 0, max: 100_000 })
    fc.assert(
      fc.property(traces, fc.double({ min: 0, max: 1_000, noNaN: true }), bytes, bytes, (trace, startMs, first, second) => {
        const inTurn = servedMs(trace, servedMs(trace, startMs, first), second)
        expect(inTurn).toBeCloseTo(servedMs(trace, startMs, first + second), 4)
      }),
    )
  })

  it('is between its slowest and its fastest interval', () => {
    fc.assert(
      fc.property(traces, fc.integer({ min: 0, max: 500 }), fc.integer({ min: 1, max: 100_000 }), (trace, startMs, bytes) => {
        const tookMs = servedMs(trace, startMs, bytes) - startMs
        expect(tookMs).toBeGreaterThanOrEqual((1_000 * bytes) / Math.max(...trace.bytesPerS) - 1e-6)
        expect(tookMs).toBeLessThanOrEqual((1_000 * bytes) / Math.min(...trace.bytesPerS) + 1e-6)
      }),
    )
  })

  it('repeats after its last interval', () => {
    const trace: RateTrace = { intervalMs: 10, bytesPerS: [1, 2, 3] }
    expect([0, 9.9, 10, 29, 30, 45].map((atMs) => rateAt(trace, atMs))).toEqual([1, 1, 2, 3, 1, 2])
    expect(shifted(trace, 4).bytesPerS).toEqual([2, 3, 1])
  })
})

describe('a random walk', () => {
  it('stays in its range, varies, and is the same for the same seed', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 1_000 }), (seed, low) => {
        const range = { lowBytesPerS: low, highBytesPerS: 2 * low }
        const walk = randomWalk(range, 500, 200, seededRandom(seed))
        expect(walk.bytesPerS).toHaveLength(200)
        for (const rate of walk.bytesPerS) expect(rate >= low && rate <= 2 * low).toBe(true)
        expect(new Set(walk.bytesPerS).size).toBeGreaterThan(100)
        expect(randomWalk(range, 500, 200, seededRandom(seed))).toEqual(walk)
      }),
    )
  })
})

describe('a recorded trace', () => {
  it('keeps its shape when scaled to another mean, without rates near zero', () => {
    const scaled = scaledTo({ intervalMs: 1_000, bytesPerS: [0, 10, 20] }, 100)
    expect(scaled.bytesPerS).toEqual([5, 100, 200])
  })
})
