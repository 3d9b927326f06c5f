import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bestForecast, type Forecast, forecastOf } from '../../../../core/policy/disco/forecast.ts'
import { RemoteChoice } from '../../../../core/policy/disco/remote-choice.ts'

const work = { promptTokens: 100, tokens: 200 }
const known = { name: 'server', firstMs: 400, msPerToken: 20, costs: { prompt: 1e-6, output: 2e-6 }, isKnown: true }
const forecast = fc.record({
  name: fc.string(),
  isKnown: fc.boolean(),
  firstMs: fc.nat(60_000),
  endMs: fc.nat(600_000),
  waitMs: fc.oneof(fc.nat(60_000), fc.constant(Number.POSITIVE_INFINITY)),
  dollars: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
})

describe('a forecast', () => {
  it('of a reader who is slower than the way waits for the first token alone', () => {
    expect(forecastOf(known, work, 10)).toEqual({
      name: 'server',
      isKnown: true,
      firstMs: 400,
      endMs: 4_400,
      waitMs: 400,
      dollars: 5e-4,
    })
  })

  it('of a faster reader waits for what is written too slowly, of one who takes all at once for the end', () => {
    // 200 tokens are read in 2 s, and written in 4.
    expect(forecastOf(known, work, 100).waitMs).toBe(2_400)
    expect(forecastOf(known, work, 0).waitMs).toBe(4_400)
    expect(forecastOf({ ...known, costs: undefined }, work, 0).dollars).toBeUndefined()
  })

  it('is worse, the later a way begins and the slower it writes', () => {
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(10_000), fc.nat(500), fc.nat(500), fc.nat(100), (first, more, pace, slower, rate) => {
        const of = (firstMs: number, msPerToken: number) => forecastOf({ ...known, firstMs, msPerToken }, work, rate).waitMs
        expect(of(first + more, pace)).toBeGreaterThanOrEqual(of(first, pace))
        expect(of(first, pace + slower)).toBeGreaterThanOrEqual(of(first, pace))
      }),
    )
  })
})

describe('the best of several ways', () => {
  it('has a wait as good as the shortest, and is the cheapest of those', () => {
    fc.assert(
      fc.property(fc.array(forecast, { minLength: 1 }), (forecasts) => {
        const best = forecasts[bestForecast(forecasts)]!
        const shortest = Math.min(...forecasts.map(({ waitMs }) => waitMs))
        const isShort = ({ waitMs }: Forecast) => waitMs <= 1.1 * shortest + 100
        expect(isShort(best)).toBe(true)
        const cheaper = forecasts.filter((other) => isShort(other) && other.dollars! < best.dollars!)
        if (forecasts.every(({ dollars }) => dollars !== undefined)) expect(cheaper).toEqual([])
      }),
    )
  })
})

describe('the choice among remote ways', () => {
  const option = (name: string, waitMs: number, { isKnown = true, isSilent = false } = {}) => {
    return { forecast: { name, isKnown, firstMs: waitMs, endMs: waitMs, waitMs, dollars: undefined }, isSilent }
  }
  const chosen = (choice: RemoteChoice, options: readonly ReturnType<typeof option>[], times: number) =>
    Array.from({ length: times }, () => options[choice.choose(options)]!.forecast.name)

  it('asks the best, and one that was not asked for long now and then', () => {
    const names = chosen(new RemoteChoice(), [option('near', 200), option('far', 900)], 200)
    expect(names.filter((name) => name === 'far')).toHaveLength(3)
    expect(new Set(names.slice(0, 64))).toEqual(new Set(['near']))
  })

  it('tries what is unknown soon, again and again as long as nothing is learnt of it', () => {
    const names = chosen(new RemoteChoice(), [option('near', 200), option('new', 2_000, { isKnown: false })], 25)
    expect(names.flatMap((name, at) => (name === 'new' ? [at] : []))).toEqual([1, 10, 19])
  })

  it('asks a silent one only as a trial, and one that has failed not at once', () => {
    const choice = new RemoteChoice()
    const options = [option('fast', 100), option('slow', 900)]
    expect(chosen(choice, options, 1)).toEqual(['fast'])
    choice.failed('fast')
    expect(chosen(choice, options, 12)).toEqual([...Array(8).fill('slow'), ...Array(4).fill('fast')])
    const silent = [option('fast', 100, { isSilent: true }), option('slow', 900)]
    expect(new Set(chosen(new RemoteChoice(), silent, 60))).toEqual(new Set(['slow']))
  })

  it('always chooses one, also where all are silent or have failed', () => {
    const options = [option('a', Number.POSITIVE_INFINITY, { isSilent: true }), option('b', 100, { isSilent: true })]
    const choice = new RemoteChoice()
    choice.failed('a')
    choice.failed('b')
    expect(chosen(choice, options, 3)).toEqual(['b', 'b', 'b'])
  })
})
