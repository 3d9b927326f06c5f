import { describe, expect, it } from 'vitest'
import { RateReports } from '../../../../core/policy/hat/chunk-advice.ts'

describe('the rates that a device reports', () => {
  it('are its first ones, and those of which one has moved', () => {
    const due = (upBytesPerS: number | undefined, prefillTokensPerS: number | undefined) => {
      const reports = new RateReports()
      reports.due(1_000, 100)
      return reports.due(upBytesPerS, prefillTokensPerS)
    }
    expect(new RateReports().due(1_000, 100)).toEqual({ upBytesPerS: 1_000, prefillTokensPerS: 100 })
    expect(due(1_000, 100)).toBeUndefined()
    expect(due(1_190, 100)).toBeUndefined()
    expect(due(1_210, 100)).toEqual({ upBytesPerS: 1_210, prefillTokensPerS: 100 })
    expect(due(1_000, 79)).toEqual({ upBytesPerS: 1_000, prefillTokensPerS: 79 })
  })

  it('are none before both are known, and compared with those reported last', () => {
    const reports = new RateReports()
    expect([reports.due(undefined, 100), reports.due(1_000, undefined), reports.reported]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    // In steps below a fifth.
    const steps = [1_000, 1_190, 1_380].map((rate) => reports.due(rate, 100)?.upBytesPerS)
    expect(steps).toEqual([1_000, undefined, 1_380])
    expect(reports.reported?.upBytesPerS).toBe(1_380)
  })
})
