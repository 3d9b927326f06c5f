import { describe, expect, it } from 'vitest'
import { maySend } from '../../../../core/policy/hat/in-flight.ts'

const link = { upBytesPerS: 1e6, rttS: 0.02, cloudS: 0.03 }
/** Link and bridge hold 50,000 bytes. */
const held = 50_000

describe('frames in flight', () => {
  it('lets two frames travel, however slow the link is', () => {
    expect(maySend({ frames: 1, bytes: 1e9 }, 1_000, { rttS: 0, cloudS: 0 })).toBe(true)
    expect(maySend({ frames: 2, bytes: 2_000 }, 1_000, { rttS: 0, cloudS: 0 })).toBe(false)
  })

  it('lets one frame wait beyond what link and bridge hold', () => {
    expect(maySend({ frames: 5, bytes: held + 1_000 }, 1_000, link)).toBe(true)
    expect(maySend({ frames: 5, bytes: held + 1_001 }, 1_000, link)).toBe(false)
  })

  it('counts propagation and the time at the bridge', () => {
    const inFlight = { frames: 3, bytes: 40_000 }
    expect(maySend(inFlight, 0, link)).toBe(true)
    expect(maySend(inFlight, 0, { ...link, rttS: 0 })).toBe(false)
    expect(maySend(inFlight, 0, { ...link, cloudS: 0 })).toBe(false)
  })
})
