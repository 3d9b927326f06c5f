import { describe, expect, it } from 'vitest'
import { createLocalTtft, createPace, createTtft } from '../../../../core/policy/disco/estimates.ts'
import { SilentStarts } from '../../../../core/policy/disco/silent-starts.ts'
import { localEstimate, remoteEstimate } from '../../../../core/policy/disco/start-estimates.ts'

describe('the estimate of a server', () => {
  it('is not extended by the starts of an outage, once they are known to be one', () => {
    const own = createTtft()
    for (let at = 0; at < 50; at += 1) own.record(300 + at)
    const silence = new SilentStarts()
    const giveUp = () => remoteEstimate({ starts: own, silence }).canceled(2 ** 21, 10)
    for (let at = 0; at < 3; at += 1) giveUp()
    expect(silence.isFailed).toBe(true)
    const before = [own.weight, own.quantile(0.9), own.quantile(0.99)]
    for (let at = 0; at < 20; at += 1) giveUp()
    expect([own.weight, own.quantile(0.9), own.quantile(0.99)]).toEqual(before)
    remoteEstimate({ starts: own, silence }).firstToken(300, 10)
    expect(silence.isFailed).toBe(false)
  })

  it('counts own starts beside the announced ones until there are enough of them', () => {
    const [own, announced] = [createTtft(), createTtft()]
    for (let at = 0; at < 10; at += 1) announced.record(1_000)
    const shareOfOwn = () => remoteEstimate({ starts: own }, announced).ttftMs.cdf(500)
    const shares = [0, 5, 15, 40].map((count) => {
      while (own.weight < count - 0.5) own.record(100)
      return shareOfOwn()
    })
    expect(shares).toEqual(shares.toSorted((a, b) => a - b))
    expect(shares[0]!).toBeLessThan(0.05)
    // The announced ones no longer count at all.
    expect(shares[3]!).toBeGreaterThan(0.95)
  })
})

describe('a server that was never asked', () => {
  const announced = createTtft()
  for (let at = 0; at < 10; at += 1) announced.record(400)

  it('is known by what its bridge announces of starts and pace, and not by less', () => {
    const shown = (...of: Parameters<typeof remoteEstimate>) => {
      const { isKnown, msPerToken, firstMs } = remoteEstimate(...of)
      return [isKnown, msPerToken, Math.round(firstMs(20))]
    }
    expect(shown({}, announced, undefined, 12)).toEqual([true, 12, 400])
    expect(shown({}, announced)).toEqual([false, 50, 400])
    expect(shown({}, undefined, undefined, 12)).toEqual([false, 12, 2_000])
  })

  it('keeps the pace that is announced until its own is measured', () => {
    const pace = createPace()
    const estimate = remoteEstimate({ pace }, announced, undefined, 12)
    estimate.gap(120, 4)
    expect(estimate.msPerToken).toBe(30)
  })
})

describe('the estimate of a device', () => {
  it('is the line through its starts, the time of starting included', () => {
    const fit = createLocalTtft()
    const estimate = localEstimate(fit, 100)
    for (const tokens of [10, 20, 40, 80]) estimate.firstToken(400 + 5 * tokens, tokens)
    expect(estimate.startMs(10)).toBeCloseTo(450, 6)
    expect(estimate.startMs(200)).toBeCloseTo(1_400, 6)
  })

  it('is before that the measured speed of its model, or a guess', () => {
    expect(localEstimate(createLocalTtft(), 50).startMs(20)).toBe(400)
    expect(localEstimate(createLocalTtft(), undefined).startMs(20)).toBe(400)
    expect(localEstimate(createLocalTtft(), 10).startMs(20)).toBe(2_000)
    // Half a billion operations a token take 25 ms, ten million half a millisecond: answers of small models migrate from the first on.
    expect(localEstimate(createLocalTtft(), undefined, 0.5e9).startMs(20)).toBe(500)
    expect(localEstimate(createLocalTtft(), undefined, 1e7).startMs(20)).toBe(10)
  })
})
