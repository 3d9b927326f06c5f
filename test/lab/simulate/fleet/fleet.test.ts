import { describe, expect, it } from 'vitest'
import { fleetRun } from '../../../../lab/simulate/fleet/fleet-run.ts'
import { fleetScenario } from '../../../../lab/simulate/fleet/fleet-scenario.ts'
import { ablations, methods } from '../../../../lab/simulate/fleet/methods.ts'
import { busiest, type DayRequest, traceDay } from '../../../../lab/simulate/fleet/trace-day.ts'
import { bracketOf, meets, nextToTry, reachable } from '../../../../lab/simulate/needed-gpus.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'

const traced = (atMs: number, outputTokens = 100, sharedTokens = 0) => ({ atMs, promptTokens: 400, outputTokens, sharedTokens })

describe('traceDay', () => {
  it('puts traces together without the gaps between their blocks, up to the end of the shortest', () => {
    const first = { requests: [traced(0), traced(9_000), traced(600_000)], prompts: 1, privateShare: 0 }
    const second = { requests: [traced(0), traced(5_000), traced(8_000), traced(20_000)], prompts: 0.1, privateShare: 0 }
    const day = traceDay([first, second], 1)
    expect(day.map(({ atS, promptTokens }) => [atS, promptTokens])).toEqual([
      [0, 400],
      [0, 40],
      [5, 40],
      [8, 40],
      [9, 400],
      [18, 40],
    ])
  })

  it('calls requests private by chance, the others long or cheap by their answers', () => {
    const requests = Array.from({ length: 1_000 }, (_, i) => traced(i, i % 2 === 0 ? 300 : 299, 200))
    const of = (privateShare: number) => traceDay([{ requests, prompts: 0.5, privateShare }], 1)
    expect(
      of(0)
        .slice(0, 2)
        .map(({ part, sharedTokens }) => [part, sharedTokens]),
    ).toEqual([
      ['long', 100],
      ['cheap', 100],
    ])
    expect(of(0.3).filter(({ part }) => part === 'private').length / 1_000).toBeCloseTo(0.3, 1)
    expect(of(1).every(({ part }) => part === 'private')).toBe(true)
  })
})

describe('the busiest stretch', () => {
  it('has the most requests of any as long, and begins with its first', () => {
    const at = (atS: number): DayRequest => ({ atS, promptTokens: 1, outputTokens: 1, sharedTokens: 0, part: 'cheap' })
    const times = (day: readonly number[], seconds: number) => busiest(day.map(at), seconds).map(({ atS }) => atS)
    expect(times([0, 5, 20, 22, 29, 30, 60], 10)).toEqual([0, 2, 9])
    expect(times([0, 5, 20, 22, 29, 29.5, 60], 10)).toEqual([0, 2, 9, 9.5])
    expect(times([], 10)).toEqual([])
  })
})

describe('the GPUs that are needed', () => {
  const goal = { ttftMeanMs: 1_000, ttftP95Ms: 2_000, stalls: 0.01 }
  const best = { gpus: 16, ttftMeanMs: 500, ttftP95Ms: 900, stalls: 0, unserved: 0 }
  const level = reachable(goal, best)
  const with_ = (gpus: number, fields = {}) => ({ ...best, gpus, ...fields })

  it('are found by bisection between those that were tried', () => {
    for (const least of [1, 3, 8, 10, 16])
      for (const exactness of [1, 2, 4]) {
        const answer = (gpus: number) => with_(gpus, { ttftP95Ms: gpus >= least ? 2_000 : 2_001 })
        const tried = [8, 16].map(answer)
        for (let next = nextToTry(bracketOf(tried, level), exactness); next !== undefined; ) {
          tried.push(answer(next))
          next = nextToTry(bracketOf(tried, level), exactness)
        }
        const { low, high } = bracketOf(tried, level)
        expect(low).toBeLessThan(least)
        expect(high).toBeGreaterThanOrEqual(least)
        expect(high - low).toBeLessThanOrEqual(exactness)
      }
  })

  it('are those above all that are not enough', () => {
    const tried = [with_(4), with_(8, { unserved: 1 }), with_(12), with_(16)]
    expect(bracketOf(tried, level)).toEqual({ low: 8, high: 12 })
  })

  it('are of a level that the most GPUs reach', () => {
    expect(level).toEqual(goal)
    const slow = with_(16, { ttftMeanMs: 2_000, ttftP95Ms: 4_000, stalls: 0.02 })
    const lower = reachable(goal, slow)
    for (const figure of ['ttftMeanMs', 'ttftP95Ms', 'stalls'] as const) {
      expect(lower[figure]).toBeCloseTo(1.1 * slow[figure])
      expect(meets({ ...slow, [figure]: 1.09 * slow[figure] }, lower)).toBe(true)
      expect(meets({ ...slow, [figure]: 1.11 * slow[figure] }, lower)).toBe(false)
    }
    expect(meets({ ...slow, unserved: 1 }, lower)).toBe(false)
  })
})

describe('a fleet', () => {
  const parts = ['private', 'long', 'cheap'] as const
  const requests = Array.from(
    { length: 9 },
    (_, i): DayRequest => ({
      atS: i,
      promptTokens: 60,
      outputTokens: 30 + 40 * (i % 3),
      sharedTokens: 0,
      part: parts[i % 3]!,
    }),
  )
  const run = async (name: string) => {
    const method = [...methods, ...ablations].find((each) => each.name === name)!
    return await runScenario(fleetScenario(method, requests, { devices: 20, gpus: 1 }, { withTraces: false }))
  }

  it('answers the same requests by every method, each kind in its own way', async () => {
    const names = [...methods, ...ablations].map(({ name }) => name)
    const results = await Promise.all(names.map(run))
    for (const { all } of results) {
      expect(all.answered).toBe(9)
      expect(all.tokens).toBe(3 * (30 + 70 + 110))
    }
    const of = (name: string) => results[names.indexOf(name)]!
    expect(of('HAT alone').modes.private!.work.rounds).toBeGreaterThan(0)
    expect(of('Brim').modes.private!.work.serverOutputTokens).toBeGreaterThan(0)
    expect(of('Brim without HAT').modes.private!.atServer).toBe(0)
    expect(of('device only').all.work.serverOutputTokens).toBe(0)
    expect(of('cloud only').all.work.deviceOutputTokens).toBe(0)
    expect(of('cloud only').modes.private!.atServer).toBe(3)
    const hatAlone = fleetRun(methods.find(({ name }) => name === 'HAT alone')!, { gpus: 1, seed: 1 }, of('HAT alone'), requests)
    expect(hatAlone).toMatchObject({ requests: 9, unserved: 0, privateLeft: 0, privateRequests: 3, bySmallModels: 0 })
    expect(
      fleetRun(methods.find(({ name }) => name === 'device only')!, { gpus: 0, seed: 1 }, of('device only'), requests),
    ).toMatchObject({
      tokenDollars: 0,
      bySmallModels: 1,
    })
  })
})
