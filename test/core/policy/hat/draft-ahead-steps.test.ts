import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import {
  draftAheadSteps,
  plannedStepsAhead,
  roundCostsOf,
  roundTripOf,
  roundTripS,
} from '../../../../core/policy/hat/draft-ahead-steps.ts'
import { conditionsOf } from '../../../../core/policy/hat/hat-conditions.ts'

const trip = {
  rows: 5,
  bytesPerToken: 8192,
  upBytesPerS: 8e6,
  downBytesPerS: 12e6,
  rttS: 0.02,
  waitS: 0.002,
  computeS: 0.01,
}
const positive = (max: number) => fc.double({ min: 1e-6, max, noNaN: true })
const anyTrip = fc.record({
  rows: fc.integer({ min: 1, max: 64 }),
  bytesPerToken: fc.integer({ min: 64, max: 16_384 }),
  upBytesPerS: fc.double({ min: 1e3, max: 1e9, noNaN: true }),
  downBytesPerS: fc.double({ min: 1e3, max: 1e9, noNaN: true }),
  rttS: positive(2),
  waitS: positive(2),
  computeS: positive(2),
})

describe('drafting ahead during a verification', () => {
  it('takes the steps that fit into the round trip', () => {
    // 20 + 5.12 + 2 + 10 + 3.41 ms
    expect(roundTripS(trip)).toBeCloseTo(0.0405, 4)
    expect(draftAheadSteps(trip, 0.004)).toBe(10)
  })

  it("is the paper's Eq. 6 without propagation, waiting and the pending row", () => {
    const [rows, g, gamma] = [4, 0.01, 0.003]
    const bytes = rows * trip.bytesPerToken
    const paper = Math.floor((bytes / trip.upBytesPerS + g + bytes / trip.downBytesPerS) / gamma)
    expect(draftAheadSteps({ ...trip, rows, rttS: 0, waitS: 0, computeS: g }, gamma)).toBe(paper)
  })

  it('never outlasts the predicted round trip', () => {
    fc.assert(
      fc.property(anyTrip, positive(1), (any, stepS) => {
        const steps = draftAheadSteps(any, stepS)
        expect(steps).toBeGreaterThanOrEqual(0)
        expect(steps * stepS).toBeLessThanOrEqual(roundTripS(any) * (1 + 1e-9))
      }),
    )
  })

  it('plans with the measured time of a step, and none before there is one', () => {
    const speed = new DeviceSpeed()
    expect(plannedStepsAhead(trip, speed)).toBe(0)
    speed.recordDraft(2, 0.016)
    expect(plannedStepsAhead(trip, speed)).toBe(5)
    speed.recordAheadStep(0.01)
    expect(plannedStepsAhead(trip, speed)).toBe(4)
  })
})

describe('a round of an answer', () => {
  it('is planned from what the link and the device have measured, each in its own unit', () => {
    const rates = { upBytesPerS: 1e6, downBytesPerS: 4e6, rttS: 0.04, cloudS: 0.5, verificationS: 0.02 }
    const speed = new DeviceSpeed()
    speed.recordDraft(10, 0.03)
    const conditions = conditionsOf({
      session: () => ({ rates, chunkTokens: 64, frameTokens: 64, draftLimit: 8 }),
      speed,
      rules: { draftLimit: 8, bytesPerToken: 2_000 },
      isPadded: () => false,
      mayDraftAhead: () => true,
    })
    // 40 + 10 + 20 + 2.5 ms, at 3 ms a step; of drafting ahead, 5 ms.
    expect(plannedStepsAhead(roundTripOf(5, 2_000, conditions), conditions)).toBe(24)
    speed.recordAheadStep(0.005)
    expect(plannedStepsAhead(roundTripOf(5, 2_000, conditions), conditions)).toBe(14)
    const { fixedS, draftS, rowS } = roundCostsOf(2_000, 0.001, conditions)
    expect([fixedS, draftS, rowS].map((seconds) => seconds && seconds * 1_000)).toEqual([
      expect.closeTo(1 + 40 + 2 + 20 + 0.5),
      expect.closeTo(3),
      expect.closeTo(2.5),
    ])
  })
})
