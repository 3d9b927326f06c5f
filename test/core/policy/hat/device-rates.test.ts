import { describe, expect, it } from 'vitest'
import { areWorthReporting } from '../../../../core/policy/hat/chunk-advice.ts'

const reported = { upBytesPerS: 1_000, prefillTokensPerS: 100 }

describe('the rates that a device reports', () => {
  it('are its first ones, and those of which one has moved', () => {
    expect(areWorthReporting(reported, undefined)).toBe(true)
    expect(areWorthReporting(reported, reported)).toBe(false)
    expect(areWorthReporting({ ...reported, upBytesPerS: 1_190 }, reported)).toBe(false)
    expect(areWorthReporting({ ...reported, upBytesPerS: 1_210 }, reported)).toBe(true)
    expect(areWorthReporting({ ...reported, prefillTokensPerS: 79 }, reported)).toBe(true)
  })
})
