import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { LinkSchedule } from '../../../lab/cluster/link-schedule.ts'
import { servedMs } from '../../../lab/cluster/rate-trace.ts'

const steady = (bytesPerS: number) => ({ intervalMs: 1_000, bytesPerS: [bytesPerS] })
const frames = fc.array(fc.record({ bytes: fc.integer({ min: 0, max: 5_000 }), afterMs: fc.integer({ min: 0, max: 40 }) }), {
  minLength: 1,
  maxLength: 30,
})

describe('a link schedule', () => {
  it('delivers bytes after their time at the rate, without the burst, plus the delay', () => {
    const link = new LinkSchedule({ rates: steady(1_000), delayMs: 10, jitterMs: 0 }, seededRandom(1))
    // After at least 1 ms of idle time one byte is free.
    expect(link.admit(5, 100)).toBe(100 + 4 + 10)
    expect(link.backlogMs(100)).toBe(4)
    // Without idle time no byte is free.
    expect(link.admit(6, 101)).toBe(104 + 6 + 10)
    expect(link.backlogMs(120)).toBe(0)
    expect(link.admit(1, 120)).toBe(130)
  })

  it('preserves the order with any jitter', () => {
    fc.assert(
      fc.property(frames, fc.integer({ min: 0, max: 30 }), fc.integer(), (sent, jitterMs, seed) => {
        const link = new LinkSchedule({ rates: steady(200_000), delayMs: 10, jitterMs }, seededRandom(seed))
        let nowMs = 0
        let lastMs = 0
        for (const { bytes, afterMs } of sent) {
          nowMs += afterMs
          const arrivesMs = link.admit(bytes, nowMs)
          expect(arrivesMs).toBeGreaterThanOrEqual(Math.max(lastMs, nowMs))
          lastMs = arrivesMs
        }
      }),
    )
  })

  it('never exceeds the rates by more than the burst', () => {
    fc.assert(
      fc.property(frames, (sent) => {
        const rates = { intervalMs: 20, bytesPerS: [100_000, 400_000] }
        const link = new LinkSchedule({ rates, delayMs: 0, jitterMs: 0 }, seededRandom(1))
        let nowMs = 50
        let total = 0
        let lastMs = 0
        for (const { bytes, afterMs } of sent) {
          nowMs += afterMs
          total += bytes
          lastMs = link.admit(bytes, nowMs)
        }
        const atOnceMs = servedMs(rates, 49, total)
        expect(lastMs).toBeGreaterThanOrEqual(atOnceMs - 1e-6)
        expect(lastMs).toBeLessThanOrEqual(Math.max(nowMs, servedMs(rates, nowMs, total)) + 1e-6)
      }),
    )
  })

  it('draws its jitter within its bounds, and only after it was idle', () => {
    const link = new LinkSchedule({ rates: steady(1_000_000), delayMs: 10, jitterMs: 4 }, seededRandom(7))
    const idle = Array.from({ length: 50 }, (_, i) => link.admit(0, 100 * (i + 1)) - 100 * (i + 1))
    for (const delayMs of idle) expect(delayMs >= 6 && delayMs <= 14).toBe(true)
    expect(new Set(idle).size).toBeGreaterThan(40)
    const first = link.admit(50_000, 10_000)
    expect(link.admit(1_000, 10_001) - first).toBeCloseTo(1, 6)
  })
})
