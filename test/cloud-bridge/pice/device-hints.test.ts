import { describe, expect, it } from 'vitest'
import { hintsOf } from '../../../cloud-bridge/pice/device-hints.ts'
import type { LatestTelemetry } from '../../../core/wire/protocol/http/devices.ts'

const networkS = (link: object) => hintsOf({ link } as LatestTelemetry).networkS

describe('the network time of an expansion', () => {
  it('is the round trip in seconds, and the transfers of sketch and sentence at the rates of the link', () => {
    expect(networkS({ rttMs: 80, upBytesPerS: null, downBytesPerS: null })).toBeCloseTo(0.08)
    const [slowDown, slowUp] = [
      networkS({ rttMs: 80, upBytesPerS: 1e9, downBytesPerS: 2_000 }),
      networkS({ rttMs: 80, upBytesPerS: 2_000, downBytesPerS: 1e9 }),
    ]
    // A sketch has more bytes than a sentence.
    expect(slowDown).toBeGreaterThan(0.5)
    expect(slowUp).toBeGreaterThan(0.1)
    expect(slowDown).toBeGreaterThan(slowUp)
    expect(networkS({ rttMs: 80, upBytesPerS: 4_000, downBytesPerS: 1e9 }) - 0.08).toBeCloseTo((slowUp - 0.08) / 2)
  })

  it('is 0 as long as nothing is measured', () => {
    expect(networkS({ rttMs: null, upBytesPerS: null, downBytesPerS: null })).toBe(0)
    expect(hintsOf(null)).toMatchObject({ networkS: 0 })
  })
})
