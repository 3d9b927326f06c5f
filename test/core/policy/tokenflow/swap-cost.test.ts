import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { intervalAfter, movedS } from '../../../../core/policy/tokenflow/swap-cost.ts'
import { answerState, unmeasured } from '../../../support/serving-state.ts'

const speeds = { ...unmeasured, evictBytesPerS: 1_000, loadBytesPerS: 2_000 }

describe('what a choice moves', () => {
  it('is what the slow tier lacks of preempted streams, and all of resumed ones', () => {
    const preempted = answerState(1, { contextLength: 64, writtenRows: 48, kvBytes: 4_000 })
    const resumed = answerState(2, { contextLength: 64, kvBytes: 6_000, residency: 'evicted' })
    expect(movedS([preempted], [resumed], speeds)).toBeCloseTo(1 + 3, 9)
  })

  it('is nothing for new streams, and as long as nothing has been measured', () => {
    const begins = answerState(1, { contextLength: 0, kvBytes: 6_000, residency: 'evicted' })
    expect(movedS([], [begins], speeds)).toBe(0)
    expect(movedS([answerState(2)], [answerState(3)], unmeasured)).toBe(0)
  })
})

it('waits until a tenth of the time pays for what was moved, between Δt and eight times Δt', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 10, noNaN: true }), fc.integer({ min: 1, max: 10_000 }), (moved, intervalMs) => {
      const ms = intervalAfter(moved, intervalMs)
      expect(ms).toBeGreaterThanOrEqual(intervalMs)
      expect(ms).toBeLessThanOrEqual(8 * intervalMs)
      if (ms < 8 * intervalMs) expect(moved * 1_000).toBeLessThanOrEqual(0.1 * ms + 1e-6)
      expect(intervalAfter(moved + 0.01, intervalMs)).toBeGreaterThanOrEqual(ms)
    }),
    {
      examples: [
        [0, 500],
        [0.05, 500],
        [1, 500],
      ],
    },
  )
})
