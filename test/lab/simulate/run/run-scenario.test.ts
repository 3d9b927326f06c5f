import { describe, expect, it } from 'vitest'
import { runAll } from '../../../../lab/simulate/run/run-all.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

function scenario(fields: object = {}, workload: object = {}): Scenario {
  return Scenario.parse({
    name: 'test',
    cloud: { model: 'llama3-8b', gpu: 'h100' },
    devices: [
      { name: 'boards', count: 3, board: 'agx-orin-64', smallModels: ['qwen2.5-1.5b'], link: { up: 5e6, down: 1e7 } },
      {
        name: 'phones',
        count: 2,
        board: 'pixel-7-pro',
        smallModels: ['bloom-1.1b'],
        link: { up: { walk: [1e6, 2e6] }, down: 1e7 },
      },
    ],
    workload: {
      requests: 30,
      arrivals: { kind: 'poisson', perS: 5 },
      promptTokens: { kind: 'uniform', min: 20, max: 200 },
      outputTokens: { kind: 'normal', mean: 40, deviation: 20 },
      modes: [{ mode: 'cloud' }, { mode: 'local' }, { mode: 'hat', groups: ['boards'] }, { mode: 'race' }],
      ...workload,
    },
    ...fields,
  })
}

describe('runScenario', async () => {
  const records: AnswerRecord[] = []
  const result = await runScenario(scenario(), { onRecord: (record) => records.push(record) })

  it('answers every request, with all of its tokens, not before it was asked', () => {
    expect(result).toMatchObject({ isComplete: true, all: { requests: 30, answered: 30, refused: {}, open: 0 } })
    expect(records.map(({ id }) => id).sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => i))
    for (const record of records) {
      expect(record.tokens).toBe(record.outputTokens)
      expect(record.ttftMs).toBeGreaterThan(0)
      expect(record.endedMs).toBeGreaterThanOrEqual(record.atMs + record.ttftMs)
    }
  })

  it('adds up what its records say', () => {
    const { all, modes, durationS } = result
    const sumOf = (value: (record: AnswerRecord) => number) => records.reduce((sum, record) => sum + value(record), 0)
    expect(all.tokens).toBe(sumOf(({ tokens }) => tokens))
    expect(all.tokensPerS).toBeCloseTo(all.tokens / durationS, 9)
    expect(all.ttftMs.mean).toBeCloseTo(sumOf(({ ttftMs }) => ttftMs) / 30, 6)
    expect(all.effectiveTokensPerS).toBeCloseTo(sumOf(({ weightedTokens }) => weightedTokens) / durationS, 6)
    expect(all.work.joules).toBeCloseTo(
      sumOf(({ joules }) => joules),
      6,
    )
    // Every token but the first of an answer ends a gap; the gaps of an answer are its time.
    expect(all.tbtMs.count).toBe(all.tokens - 30)
    expect(all.tbtMs.mean * all.tbtMs.count).toBeCloseTo(
      sumOf(({ tbtMs, tokens }) => (tokens > 1 ? tbtMs * (tokens - 1) : 0)),
      3,
    )
    const perMode = Object.values(modes)
    expect(perMode.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(all.tokens)
    expect(perMode.reduce((sum, { ttftMs }) => sum + ttftMs.count * ttftMs.mean, 0)).toBeCloseTo(30 * all.ttftMs.mean, 6)
    expect(Math.max(...perMode.map(({ latencyMs }) => latencyMs.max))).toBe(all.latencyMs.max)
  })

  it('counts waiting and stalls against quality of service', () => {
    const { all, durationS } = result
    const lostS = (all.ttftMs.mean * 30 + all.stalledMs.mean * 30) / 1_000
    expect(all.qos).toBeCloseTo(all.effectiveTokensPerS - lostS / durationS, 6)
  })

  it('is the same for one seed, and another for another', async () => {
    expect(await runScenario(scenario())).toEqual(result)
    expect((await runScenario(scenario({ seed: 2 }))).all.ttftMs.mean).not.toBe(result.all.ttftMs.mean)
  })

  it('counts only the requests of a stretch of time, if asked to', async () => {
    const [fromS, untilS] = [2, 4]
    const within: AnswerRecord[] = []
    const counted = await runScenario(scenario({}, { counted: { fromS, untilS } }), {
      onRecord: (record) => within.push(record),
    })
    // It changes nothing of what happens.
    expect(within).toEqual(records)
    const own = records.filter(({ atMs }) => atMs >= 1_000 * fromS && atMs < 1_000 * untilS)
    expect(own.length).toBeGreaterThan(0)
    expect(own.length).toBeLessThan(30)
    expect(counted.all).toMatchObject({ requests: own.length, answered: own.length, open: 0 })
    expect(counted.all.tokens).toBe(own.reduce((sum, { tokens }) => sum + tokens, 0))
  })

  it('ends at its time, with requests open', async () => {
    const { isComplete, all, durationS } = await runScenario(scenario({ untilS: 3 }))
    expect(isComplete).toBe(true)
    expect(durationS).toBeLessThanOrEqual(3)
    expect(all.open).toBeGreaterThan(0)
    expect(all.requests).toBe(all.answered + all.open)
  })

  it('is interrupted with the results so far', async () => {
    const stop = new AbortController()
    const long = scenario({}, { requests: 100_000, modes: [{ mode: 'local' }] })
    const { isComplete, all } = await runScenario(long, { signal: stop.signal, onProgress: () => stop.abort() })
    expect(isComplete).toBe(false)
    expect(all.answered).toBeGreaterThan(0)
    expect(all.requests).toBeLessThan(100_000)
  })

  it('says which file is missing, and where it was looked for', async () => {
    const traced = scenario({}, { arrivals: { kind: 'trace', file: 'azure.csv' } })
    await expect(runScenario(traced, { folders: ['/nowhere'] })).rejects.toThrow('azure.csv is in none of /nowhere/azure.csv')
  })
})

describe('runAll', () => {
  it('has results in the order of the scenarios', async () => {
    const seeds = [3, 1, 2]
    const results = await runAll(
      seeds.map((seed) => scenario({ seed }, { requests: 5 })),
      { workers: 1 },
    )
    expect(results.map((result) => result?.seed)).toEqual(seeds)
  })

  it('begins none that come after an interruption', async () => {
    const stop = new AbortController()
    const scenarios = [1, 2].map((seed) => scenario({ seed }, { requests: 5 }))
    const results = await runAll(scenarios, { workers: 1, signal: stop.signal, onProgress: () => stop.abort() })
    expect(results[0]?.all.requests).toBeGreaterThan(0)
    expect(results[1]).toBeUndefined()
  })
})
