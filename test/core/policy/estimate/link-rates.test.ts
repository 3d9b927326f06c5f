import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LinkRates } from '../../../../core/policy/estimate/link-rates.ts'

interface Link {
  upBytesPerS: number
  downBytesPerS: number
  rttS: number
  cloudS: number
}

/** Frames over a link of constant rates: they queue in each direction, and the bridge computes one at a time. */
function overLink(link: Link, frames: readonly { sentS: number; bytesUp: number; bytesDown: number }[]): LinkRates {
  const rates = new LinkRates()
  rates.recordRoundTrip(link.rttS)
  let upFreeS = 0
  let cloudFreeS = 0
  let downFreeS = 0
  for (const { sentS, bytesUp, bytesDown } of frames) {
    upFreeS = Math.max(upFreeS, sentS) + bytesUp / link.upBytesPerS
    const arrivedS = upFreeS + link.rttS / 2
    cloudFreeS = Math.max(cloudFreeS, arrivedS) + link.cloudS
    downFreeS = Math.max(downFreeS, cloudFreeS) + bytesDown / link.downBytesPerS
    rates.recordExchange({ bytesUp, bytesDown, sentS, answeredS: downFreeS + link.rttS / 2, cloudS: cloudFreeS - arrivedS })
  }
  return rates
}

const anyLink = fc.record({
  upBytesPerS: fc.double({ min: 1e4, max: 1e7, noNaN: true }),
  downBytesPerS: fc.double({ min: 1e4, max: 1e7, noNaN: true }),
  rttS: fc.double({ min: 0, max: 0.2, noNaN: true }),
  cloudS: fc.double({ min: 0, max: 0.1, noNaN: true }),
})

describe('the rates of a link', () => {
  it('are unknown before the first frame that is large enough', () => {
    const rates = new LinkRates()
    rates.recordExchange({ bytesUp: 500, bytesDown: 100, sentS: 0, answeredS: 1, cloudS: 0 })
    expect(rates).toMatchObject({ upBytesPerS: undefined, downBytesPerS: undefined, rttS: 0 })
  })

  it('are measured from chunks that queue behind each other', () => {
    fc.assert(
      fc.property(anyLink, fc.integer({ min: 4096, max: 65_536 }), (link, bytes) => {
        const chunks = Array.from({ length: 6 }, (_, at) => ({ sentS: at * 0.001, bytesUp: bytes, bytesDown: 40 }))
        const { upBytesPerS } = overLink(link, chunks)
        // The time of the replies' own 40 bytes is unknown, and timers resolve 0.1 ms.
        const slack = 0.05 + (40 / link.downBytesPerS + 1e-4) / (bytes / link.upBytesPerS)
        expect(upBytesPerS).toBeGreaterThan(link.upBytesPerS / (1 + slack))
        expect(upBytesPerS).toBeLessThan(link.upBytesPerS * (1 + slack))
      }),
    )
  })

  it('are measured both ways from replies that carry states', () => {
    const link = { upBytesPerS: 5e5, downBytesPerS: 1e6, rttS: 0.02, cloudS: 0.005 }
    const prompt = { sentS: 0, bytesUp: 65_536, bytesDown: 40 }
    const rounds = Array.from({ length: 20 }, (_, at) => ({ sentS: 1 + at, bytesUp: 8192, bytesDown: 8192 }))
    const rates = overLink(link, [prompt, ...rounds])
    expect(rates.upBytesPerS! / link.upBytesPerS).toBeCloseTo(1, 1)
    expect(rates.downBytesPerS! / link.downBytesPerS).toBeCloseTo(1, 1)
    expect(rates).toMatchObject({ rttS: 0.02, cloudS: expect.closeTo(0.005) })
  })

  it('follow a link that slows down', () => {
    const rates = new LinkRates()
    const at = (from: number, seconds: number) =>
      rates.recordExchange({ bytesUp: 100_000, bytesDown: 40, sentS: from, answeredS: from + seconds, cloudS: 0 })
    for (let i = 0; i < 5; i++) at(i, 0.1)
    expect(rates.upBytesPerS).toBeCloseTo(1e6, -3)
    for (let i = 5; i < 25; i++) at(i, 0.5)
    expect(rates.upBytesPerS! / 2e5).toBeCloseTo(1, 1)
  })

  it('are as old as the older of the two, and two probes suffice', () => {
    const rates = new LinkRates()
    rates.recordRoundTrip(0.02)
    rates.recordProbe({ bytesUp: 10_000, bytesDown: 40, sentS: 1, answeredS: 1.12 })
    expect(rates).toMatchObject({ upBytesPerS: expect.closeTo(1e5), downBytesPerS: undefined, measuredS: undefined })
    rates.recordProbe({ bytesUp: 10_000, bytesDown: 10_000, sentS: 2, answeredS: 2.17 })
    expect(rates).toMatchObject({ upBytesPerS: expect.closeTo(1e5), downBytesPerS: expect.closeTo(2e5), measuredS: 1.12 })
    rates.recordExchange({ bytesUp: 10_000, bytesDown: 40, sentS: 9, answeredS: 9.2, cloudS: 0.08 })
    // Probes do not measure the bridge's time.
    expect(rates).toMatchObject({ measuredS: 2.17, cloudS: 0.08 })
  })

  it('use the shortest of the last eight round trips', () => {
    const rates = new LinkRates()
    for (const ms of [5, 30, 31, 32, 33, 34, 35, 36]) rates.recordRoundTrip(ms / 1000)
    expect(rates.rttS).toBe(0.005)
    rates.recordRoundTrip(0.04)
    expect(rates.rttS).toBe(0.03)
  })
})

describe('a clock that jumps during a frame', () => {
  const frame = { bytesUp: 100_000, bytesDown: 100, cloudS: 0.01 }
  it.each([-3_600, 3_600])('by %i s does not distort the rates permanently', (jumpS) => {
    const rates = new LinkRates()
    let nowS = 10_000
    const exchange = (jump = 0) => {
      const sentS = nowS
      nowS += 0.11 + jump
      rates.recordExchange({ ...frame, sentS, answeredS: nowS })
    }
    for (let i = 0; i < 5; i++) exchange()
    expect(rates.upBytesPerS).toBeCloseTo(1e6)
    exchange(jumpS)
    for (let i = 0; i < 20; i++) exchange()
    expect(rates.upBytesPerS! / 1e6).toBeCloseTo(1, 1)
  })

  it('records no round trip of negative length', () => {
    const rates = new LinkRates()
    rates.recordRoundTrip(0.05)
    rates.recordRoundTrip(-3_600)
    expect(rates.rttS).toBe(0.05)
  })
})

describe('a verification that takes longer than expected', () => {
  /** A link of 1 MB/s both ways: 4 KB each way take 8 ms. */
  const verification = (sentS: number, rttS: number) => ({
    ...{ bytesUp: 4_000, bytesDown: 4_000, sentS, cloudS: 0.001, isVerification: true },
    answeredS: sentS + rttS + 0.009,
  })
  function known() {
    let pings = 0
    const rates = new LinkRates(() => {
      pings += 1
    })
    rates.recordRoundTrip(0.01)
    rates.recordProbe({ bytesUp: 100_000, bytesDown: 0, sentS: 0, answeredS: 0.11 })
    rates.recordExchange(verification(1, 0.01))
    const before = rates.upBytesPerS!
    return { rates, before, pings: () => pings }
  }

  it('has a ping sent, whose answer is the round trip from then on; the rates stay', () => {
    const { rates, before, pings } = known()
    for (let at = 2; at < 5; at += 1) rates.recordExchange(verification(at, 0.3))
    expect([pings(), rates.upBytesPerS, rates.rttS]).toEqual([1, before, 0.01])
    rates.recordRoundTrip(0.3)
    for (let at = 5; at < 9; at += 1) rates.recordExchange(verification(at, 0.3))
    expect([pings(), rates.rttS]).toEqual([1, 0.3])
    expect(Math.abs(rates.upBytesPerS! / before - 1)).toBeLessThan(0.2)
  })

  it('measures the link where the ping finds the round trip as it was', () => {
    const { rates, before, pings } = known()
    rates.recordExchange(verification(2, 0.3))
    rates.recordRoundTrip(0.01)
    for (let at = 3; at < 20; at += 1) rates.recordExchange({ ...verification(at, 0.3), bytesDown: 100 })
    expect(pings()).toBe(1)
    expect(rates.upBytesPerS!).toBeLessThan(before / 4)
  })
})

it('tells the bridge’s time for verifications from that for chunks of prompts (HAT Eq. 6)', () => {
  const rates = new LinkRates()
  const exchange = { bytesUp: 500, bytesDown: 100, sentS: 0, answeredS: 1 }
  rates.recordExchange({ ...exchange, cloudS: 0.4 })
  expect(rates.verificationS).toBe(0.4)
  rates.recordExchange({ ...exchange, cloudS: 0.01, isVerification: true })
  for (let at = 0; at < 50; at += 1) rates.recordExchange({ ...exchange, cloudS: 0.4 })
  expect(rates.verificationS).toBe(0.01)
  expect(rates.cloudS).toBeCloseTo(0.4)
})
