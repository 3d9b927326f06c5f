import { describe, expect, it } from 'vitest'
import { askAfterS, giveUpAfterS } from '../../../../core/policy/link/silence.ts'

const rates = { upBytesPerS: 1e6, downBytesPerS: 1e5, rttS: 0.1, cloudS: 0.2 }

describe('the timeouts for a bridge that owes replies', () => {
  it.each([
    ['a fast link: the minimum', { bytesUp: 0, bytesDown: 0, rates: { ...rates, rttS: 0, cloudS: 0 } }, 0.25, 2],
    ['four times round trip, transfers and computing', { bytesUp: 200_000, bytesDown: 10_000, rates }, 2.4, 2],
    ['a large upload: the ping queues behind it', { bytesUp: 2_000_000, bytesDown: 0, rates }, 9.2, 8.4],
    ['a large reply: the pong queues behind it', { bytesUp: 0, bytesDown: 200_000, rates }, 9.2, 8.4],
    [
      'unknown rates: a slow link',
      { bytesUp: 32_000, bytesDown: 32_000, rates: { ...rates, upBytesPerS: undefined, downBytesPerS: undefined } },
      5.2,
      4.4,
    ],
    ['at most the heartbeat interval', { bytesUp: 1e9, bytesDown: 0, rates }, 20, 20],
  ])('%s', (_, awaited, askS, giveUpS) => {
    expect(askAfterS(awaited)).toBeCloseTo(askS)
    expect(giveUpAfterS(awaited)).toBeCloseTo(giveUpS)
  })
})
