import { describe, expect, it } from 'vitest'
import { discoBench } from '../../../../lab/bench/disco/bench.ts'
import { readReplayData } from '../../../../lab/bench/disco/data.ts'
import { discoFigures, heavyTail, traceFigures } from '../../../../lab/bench/disco/figures.ts'
import type { LiveRun } from '../../../../lab/bench/disco/live.ts'
import type { MethodName } from '../../../../lab/bench/disco/methods.ts'
import type { WireRun } from '../../../../lab/bench/disco/over-wire.ts'
import { replaySeed } from '../../../../lab/bench/disco/replay-seed.ts'
import { type CostRun, mergeSeeds, type TtftRun, valuesOf } from '../../../../lab/bench/disco/runs.ts'
import { summaryOf } from '../../../../lab/frame/figures.ts'
import { benchPage } from '../../../../lab/frame/page.ts'
import { intervalOf } from '../../../../lab/frame/statistics.ts'
import { renderFigure } from '../../../../lab/plot/plot.ts'

const plan = {
  seeds: 2,
  ttft: { alpaca: { requests: 60, budgets: [0.2, 1] }, azure: { requests: 20, budgets: [0.5] } },
  cost: { requests: 6, budgets: [1] },
  liveRequests: 0,
}
const trace = (name: string, slowMs: number) => ({
  name,
  failed: 1,
  latencies: Array.from({ length: 50 }, (_, i) => ({ ttftMs: i % 10 === 0 ? slowMs : 400, tokenMs: 15 })),
})
const traces = [trace('steady', 500), trace('heavy', 20_000)]
const shapes = Array.from({ length: 20 }, (_, i) => ({ promptTokens: 10 + i, outputTokens: 40 + i }))
const runs = mergeSeeds(
  [1, 2].flatMap((seed) => traces.map((each) => replaySeed(plan, each, { alpaca: shapes, azure: shapes }, seed))),
)
const figures = { ttftMs: 100, tookMs: 900, dollars: 1e-6, hasMigrated: false }
const liveRun = (method: MethodName): LiveRun => ({
  measured: 'live',
  method,
  device: 'd',
  promptTokens: 9,
  outputTokens: 9,
  live: { ...figures, ttftMs: 110 },
  replay: figures,
})
const wireRun = (server: WireRun['server']): WireRun => ({
  measured: 'wire',
  server,
  requests: 9,
  served: 8,
  booksDollars: 0.021,
  wireDollars: server === 'misreports' ? 0.022 : 0.02,
  capDollars: 0.02,
  maxGapS: server === 'falls silent' ? 0.7 : null,
})
const inputs = {
  traces: traces.map(traceFigures),
  ttft: runs.filter((run): run is TtftRun => run.measured === 'ttft'),
  cost: runs.filter((run): run is CostRun => run.measured === 'cost'),
  live: [liveRun('server only'), liveRun('DiSCo-S')],
  wire: (['honest', 'honest, readers leave', 'misreports', 'falls silent'] as const).map(wireRun),
}

describe('the report of bench disco', () => {
  it('keeps one value per seed', () => {
    for (const run of inputs.ttft) expect(valuesOf(run.meanMs)).toHaveLength(2)
  })

  it('has heavy tails from a ratio on', () => {
    expect(inputs.traces.map(({ tail }) => tail >= heavyTail)).toEqual([false, true])
  })

  it('has every figure of the replay', () => {
    const summary = summaryOf(discoFigures, inputs)
    for (const [name, value] of Object.entries(summary)) expect(value, name).toEqual(expect.any(Number))
    expect(summary.p99TtftCutServer).toBeGreaterThan(0.5)
    expect(summary.liveOverReplay).toBeCloseTo(0.1)
    expect(summary).toMatchObject({ maxGapS: 0.7, overCap: expect.closeTo(0.1), budgetOffWire: expect.closeTo(0.05) })
    expect(summary.p99TbtS).toBeCloseTo(0.209, 3)
  })

  it('makes a page and a figure', () => {
    const machine = { cpu: 'c', memoryGiB: 1, platform: 'p', node: 'n', loadAverageBefore: 0, loadAverageAfter: 0 }
    const wire = { vocabulary: 4_096, bitsPerId: 12, bytesPerToken: 3, bitsCut: 0.5, bytesCut: 0.3 }
    const conditions = { ...machine, command: 'c', startedAt: 's', commit: 'x', plan, traces: inputs.traces, wire }
    const document = {
      bench: 'disco',
      conditions,
      summary: summaryOf(discoFigures, inputs),
      runs: [...inputs.live, ...inputs.wire, ...runs],
    }
    const page = benchPage(document, discoBench.report, discoBench.goals)
    expect(page).toContain('**heavy**')
    expect(`${page}${renderFigure(discoBench.report.figure(document))}`).not.toMatch(/undefined|NaN|Infinity/)
  })
})

describe('the interval of a mean', () => {
  it('is that of Student’s t, and none of one value', () => {
    expect(intervalOf([4])).toEqual({ mean: 4, half: null })
    expect(intervalOf([])).toBeNull()
    const { mean, half } = intervalOf(Array.from({ length: 10 }, (_, i) => i))!
    expect(mean).toBe(4.5)
    // t(0.975, 9) = 2.262; the deviation is 3.028.
    expect(half).toBeCloseTo((2.262 * 3.0277) / Math.sqrt(10), 2)
  })
})

describe('the data of the replay', () => {
  it('is named with its folder where it is missing', async () => {
    await expect(readReplayData('/nonexistent')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringContaining('/nonexistent/'),
      hint: expect.stringContaining('--data'),
    })
  })
})
