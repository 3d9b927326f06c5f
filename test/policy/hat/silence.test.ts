import { describe, expect, it } from 'vitest'
import { askAfterS, giveUpAfterS } from '../../../core/policy/hat/silence.ts'

const rates = { upBytesPerS: 1e6, rttS: 0.1, cloudS: 0.2 }

describe('the silence of a bridge that owes replies', () => {
  it.each([
    ['a fast link: the least', { bytes: 0, rates: { upBytesPerS: 1e9, rttS: 0, cloudS: 0 } }, 0.25, 2],
    ['round trip, upload and computing, four times', { bytes: 300_000, rates }, 2.4, 2],
    ['a large upload: the question waits behind it', { bytes: 2_000_000, rates }, 9.2, 8.4],
    ['nothing measured yet: a slow link', { bytes: 64_000, rates: { ...rates, upBytesPerS: undefined } }, 5.2, 4.4],
    ['never later than a heartbeat', { bytes: 1e9, rates }, 20, 20],
  ])('%s', (_, awaited, askS, giveUpS) => {
    expect(askAfterS(awaited)).toBeCloseTo(askS)
    expect(giveUpAfterS(awaited)).toBeCloseTo(giveUpS)
  })
})
