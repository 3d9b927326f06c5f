import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RecentErrors } from '../../../agent/telemetry/recent-errors.ts'
import { TokenEnergy } from '../../../agent/telemetry/token-energy.ts'
import { AnswerMeter } from '../../../core/answer/endpoint/meter.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { createLogger } from '../../../core/kit/base/logger.ts'
import { fakeClock } from '../../support/fake-clock.ts'

describe('answers', () => {
  it('in progress are counted, and time during which several overlap counts once', async () => {
    const clock = fakeClock(500)
    const meter = new AnswerMeter(clock)
    const first = meter.begin()
    await clock.advance(2_000)
    const second = meter.begin()
    await clock.advance(1_000)
    expect([meter.active, meter.totals]).toEqual([2, { tokens: 0, busyS: 3 }])
    first({ model: 'tiny', tpotMs: 100, tokens: 20 })
    await clock.advance(1_000)
    second()
    await clock.advance(60_000)
    expect([meter.active, meter.totals]).toEqual([0, { tokens: 20, busyS: 4 }])
    expect(meter.decodeTokensPerS).toEqual({ tiny: 10 })
  })

  it('yield a smoothed decode rate per model', () => {
    const meter = new AnswerMeter(fakeClock())
    for (const [model, tpotMs] of [
      ['large', 100],
      ['small', 10],
      ['large', 50],
      ['large', null],
      ['large', 0],
    ] as const)
      meter.begin()({ model, tpotMs, tokens: 2 })
    expect(meter.decodeTokensPerS).toEqual({ large: 12, small: 100 })
  })
})

describe('the energy per token', () => {
  it('is the energy used while answers are in progress / their tokens', () => {
    const energy = new TokenEnergy()
    energy.sampled({ watts: 5, isBusy: false, busyS: 0, tokens: 0 })
    expect(energy.jPerToken).toBeNull()
    energy.sampled({ watts: 20, isBusy: true, busyS: 10, tokens: 0 })
    expect(energy.jPerToken).toBeNull()
    energy.sampled({ watts: 5, isBusy: false, busyS: 12, tokens: 100 })
    // 0.8 of the first ten seconds, and the two after it.
    expect(energy.jPerToken).toBe((20 * (0.8 * 10 + 2)) / 100)
    energy.sampled({ watts: 5, isBusy: false, busyS: 12, tokens: 100 })
    expect(energy.jPerToken).toBe(2)
  })

  it('is unknown if no sample was taken during an answer', () => {
    const energy = new TokenEnergy()
    energy.sampled({ watts: 5, isBusy: false, busyS: 3, tokens: 50 })
    expect(energy.jPerToken).toBeNull()
  })

  it('is power / tokens per second if both are steady, whatever the sampling times', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 50 }), (steps) => {
        const energy = new TokenEnergy()
        let busyS = 0
        for (const step of steps) {
          busyS += step
          energy.sampled({ watts: 12, isBusy: true, busyS, tokens: 40 * busyS })
        }
        expect(energy.jPerToken).toBe(0.3)
      }),
    )
  })
})

describe('the power of a device', () => {
  it('is reported for busy and idle times, and yields the energy per token of a rate', () => {
    const energy = new TokenEnergy()
    expect([energy.busyW, energy.idleW, energy.jPerTokenAt({ tiny: 50 })]).toEqual([null, null, {}])
    energy.sampled({ watts: 5, isBusy: false, busyS: 0, tokens: 0 })
    expect([energy.busyW, energy.idleW]).toEqual([null, 5])
    energy.sampled({ watts: 20, isBusy: true, busyS: 10, tokens: 0 })
    energy.sampled({ watts: 30, isBusy: true, busyS: 20, tokens: 0 })
    expect([energy.busyW, energy.idleW]).toEqual([22, 5])
    expect(energy.jPerTokenAt({ tiny: 50, large: 3 })).toEqual({ tiny: 0.44, large: 7.33 })
  })
})

describe('recent errors', () => {
  const named = (code: string) => Object.assign(new Error('a message that quotes a prompt'), { code })

  it('are the last five codes, newest first, without messages', () => {
    const errors = new RecentErrors()
    for (const code of ['A_ONE', 'B_TWO', 'C_THREE', 'D_FOUR', 'E_FIVE', 'A_ONE', 'F_SIX']) errors.add(named(code))
    expect(errors.list.map(({ code, count }) => [code, count])).toEqual([
      ['F_SIX', 1],
      ['A_ONE', 2],
      ['E_FIVE', 1],
      ['D_FOUR', 1],
      ['C_THREE', 1],
    ])
    for (const thrown of [new Error('secret'), named('what was asked?'), 'secret', undefined]) errors.add(thrown)
    expect(errors.list[0]).toMatchObject({ code: 'UNEXPECTED', count: 4 })
    expect(JSON.stringify(errors.list)).not.toMatch(/secret|prompt|asked/)
  })

  it('are collected from the logger', () => {
    const errors = new RecentErrors()
    const logger = createLogger('error', {}, { onError: (error) => errors.add(error) })
    const err = new BrimError('LINK_LOST', 'a test of what is logged')
    logger.warn({ err: new BrimError('OUT_OF_MEMORY', 'below the level') }, 'not recorded')
    logger.child({ component: 'test' }).error({ err }, 'recorded')
    expect(errors.list).toMatchObject([{ code: 'LINK_LOST', count: 1 }])
  })
})
