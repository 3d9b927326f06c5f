import { describe, expect, it } from 'vitest'
import { fleetScenario } from '../../../../lab/simulate/fleet/fleet-scenario.ts'
import { ablations, methods } from '../../../../lab/simulate/fleet/methods.ts'
import { leastEnough } from '../../../../lab/simulate/fleet/needed-gpus.ts'
import { type DayRequest, traceDay } from '../../../../lab/simulate/fleet/trace-day.ts'
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

describe('leastEnough', () => {
  it('finds for each search the least number that is enough, or that none is', async () => {
    const wanted = [1, 7, 16, 17]
    const asked: number[] = []
    const found = await leastEnough(wanted.length, 16, async (numbers) => {
      asked.push(numbers.size)
      return new Map([...numbers].map(([i, number]) => [i, number >= wanted[i]!]))
    })
    expect(found).toEqual([1, 7, 16, undefined])
    expect(asked).toEqual([4, 3, 3, 3, 3])
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
    expect(of('Brim').modes.private!.work.rounds).toBeGreaterThan(0)
    expect(of('Brim without HAT').modes.private!.atServer).toBe(0)
    expect(of('device only').all.work.serverOutputTokens).toBe(0)
    expect(of('cloud only').all.work.deviceOutputTokens).toBe(0)
    expect(of('cloud only').modes.private!.atServer).toBe(3)
  })
})
