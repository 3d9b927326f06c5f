import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { conditionsOf } from '../../../../core/policy/hat/hat-conditions.ts'
import { paddedVerification } from '../../../../core/policy/hat/padded-rows.ts'

const trip = { rows: 1, bytesPerToken: 8_192, upBytesPerS: 8e6, downBytesPerS: 12e6, rttS: 0.3, waitS: 0, computeS: 0.01 }

describe('the length of padded verifications', () => {
  it('has room for the longest draft where the link hardly notices, and else for a short one', () => {
    // Eight rows more take 13.7 ms.
    expect(paddedVerification(15, trip)).toBe(16)
    expect(paddedVerification(15, { ...trip, rttS: 0.02 })).toBe(8)
    expect(paddedVerification(15, { ...trip, upBytesPerS: 1e6 })).toBe(8)
    // Unknown.
    expect(
      paddedVerification(15, { ...trip, upBytesPerS: Number.POSITIVE_INFINITY, downBytesPerS: Number.POSITIVE_INFINITY }),
    ).toBe(8)
  })

  it('is one row more than any draft, and no longer than what the bridge allows', () => {
    const rate = fc.double({ min: 1e3, max: 1e9, noNaN: true })
    fc.assert(
      fc.property(fc.nat(64), rate, rate, fc.double({ min: 0, max: 2, noNaN: true }), (limit, up, down, rttS) => {
        const rows = paddedVerification(limit, { ...trip, upBytesPerS: up, downBytesPerS: down, rttS })
        expect([1 + Math.min(limit, 7), 1 + limit]).toContain(rows)
      }),
    )
  })

  it('stays that of the session’s beginning, whatever is measured later, and is chosen again for another session', () => {
    const terms = (rttS: number) => ({
      ...{ chunkTokens: 8, frameTokens: 32, draftLimit: 15 },
      rates: { upBytesPerS: 8e6, downBytesPerS: 12e6, rttS, cloudS: 0.01, verificationS: 0.01 },
    })
    let session = terms(0.3)
    const conditions = conditionsOf({
      session: () => session,
      speed: {},
      rules: { draftLimit: Number.POSITIVE_INFINITY, bytesPerToken: 8_192 },
      isPadded: () => true,
      mayDraftAhead: () => true,
    })
    session.rates.rttS = 0.001
    expect(conditions.paddedRows).toBe(16)
    session = terms(0.001)
    expect(conditions.paddedRows).toBe(8)
    session.rates.rttS = 0.3
    expect(conditions.paddedRows).toBe(8)
  })
})
