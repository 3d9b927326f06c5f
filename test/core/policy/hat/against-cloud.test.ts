import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { againstCloud } from '../../../../core/policy/hat/against-cloud.ts'

const seconds = fc.double({ min: 1e-4, max: 10, noNaN: true })

describe('HAT against the cloud alone', () => {
  it('is slower where a round takes longer than the cloud needs for its tokens', () => {
    // A round of 40 ms, 20 of them on the way, gives two tokens; the cloud writes one in 12 ms.
    const round = { rttS: 0.02, acceptLength: 2, computeS: 0.006 }
    const slower = againstCloud({ tokenS: 0.02, cloudTokenS: 0.012, round })
    expect(slower).toMatchObject({ isSlower: true })
    expect(slower.maxRttS).toBeCloseTo(0.004, 9)
    expect(slower.sessions).toBeCloseTo(4, 9)
    expect(againstCloud({ tokenS: 0.02, cloudTokenS: 0.03, round })).toMatchObject({ isSlower: false })
    expect(againstCloud({ tokenS: 2, cloudTokenS: 1 })).toEqual({
      isSlower: true,
      ratio: 2,
      maxRttS: undefined,
      sessions: undefined,
    })
  })

  it('is as fast at the round-trip time that it names, and at none where the rest of the round takes too long already', () => {
    fc.assert(
      fc.property(
        seconds,
        seconds,
        seconds,
        seconds,
        fc.double({ min: 1, max: 17, noNaN: true }),
        (rttS, restS, computeS, cloudTokenS, acceptLength) => {
          const at = (rtt: number) =>
            againstCloud({ tokenS: (rtt + restS) / acceptLength, cloudTokenS, round: { rttS: rtt, acceptLength, computeS } })
          const { maxRttS, isSlower } = at(rttS)
          if (maxRttS === 0) return at(0).ratio >= 1 - 1e-9
          return Math.abs(at(maxRttS!).ratio - 1) < 1e-6 && isSlower === rttS > maxRttS! * (1 + 1e-12)
        },
      ),
    )
  })
})
