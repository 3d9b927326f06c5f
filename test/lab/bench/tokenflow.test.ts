import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { tokenFlowBench } from '../../../lab/bench/tokenflow/bench.ts'
import { figuresOf, flowFigures, loadOverTime, serverRatio } from '../../../lab/bench/tokenflow/figures.ts'
import type { FlowRun } from '../../../lab/bench/tokenflow/runs.ts'
import { type FlowSample, spreadOver } from '../../../lab/bench/tokenflow/timeline.ts'
import { readTrace, requestsOf, workloadNames, workloads } from '../../../lab/bench/tokenflow/workload.ts'
import { summaryOf } from '../../../lab/frame/figures.ts'
import { benchPage } from '../../../lab/frame/page.ts'
import { renderFigure } from '../../../lab/plot/plot.ts'

const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0)

describe('the requests of a workload', () => {
  const saturated = 700

  it.each(workloadNames)('%s: ordered, within the context, as many as planned, with the planned load of readers', (name) => {
    const workload = workloads[name]
    const requests = requestsOf(workload, saturated, seededRandom(3))
    expect(requests).toHaveLength(workload.requests)
    expect(requests[0]!.atMs).toBeGreaterThanOrEqual(0)
    for (const [i, { atMs, promptTokens, answerTokens }] of requests.entries()) {
      expect(atMs).toBeGreaterThanOrEqual(requests[i - 1]?.atMs ?? 0)
      expect(promptTokens).toBeGreaterThan(0)
      expect(answerTokens).toBeGreaterThan(0)
      expect(promptTokens + answerTokens).toBeLessThan(2_048)
    }
    expect(total(requests.map(({ tokensPerS }) => tokensPerS))).toBeCloseTo(workload.readingLoad * saturated)
    expect(requestsOf(workload, saturated, seededRandom(3))).toEqual(requests)
  })

  it('arrive at once in a burst, and over the time that their load gives elsewhere', () => {
    expect(requestsOf(workloads['burst 60 SL'], saturated, seededRandom(1)).every(({ atMs }) => atMs === 0)).toBe(true)
    for (const name of ['Poisson 4', 'mooncake'] as const) {
      const { arrivals } = workloads[name]
      const requests = requestsOf(workloads[name], saturated, seededRandom(1))
      const answerTokens = total(requests.map((request) => request.answerTokens))
      expect(arrivals).toHaveProperty('load')
      const load = 'load' in arrivals ? arrivals.load : 0
      expect(answerTokens / (requests.at(-1)!.atMs / 1_000) / saturated).toBeCloseTo(load)
    }
  })

  it('have the mean lengths, and for every seed the same ones in another order', () => {
    const [one, other] = [1, 2].map((seed) => requestsOf(workloads['burst 60 SL'], saturated, seededRandom(seed)))
    const lengths = (requests: typeof one) => requests!.map(({ answerTokens }) => answerTokens)
    expect(total(lengths(one)) / 60).toBeCloseTo(256, 0)
    expect(lengths(one)).not.toEqual(lengths(other))
    expect(lengths(one).sort()).toEqual(lengths(other).sort())
  })

  it('keep the proportions of a trace', () => {
    const trace = readTrace('mooncake-conversation')
    const requests = requestsOf(workloads.mooncake, saturated, seededRandom(1))
    expect(requests[40]!.atMs / requests.at(-1)!.atMs).toBeCloseTo(trace[40]!.atMs / trace.at(-1)!.atMs)
    expect(total(requests.map(({ answerTokens }) => answerTokens)) / 80).toBeGreaterThan(0.8 * 256)
  })

  it('come from readers of two rates, as many of each as planned', () => {
    const rates = requestsOf(workloads['rates 15 and 20'], saturated, seededRandom(1)).map(({ tokensPerS }) => tokensPerS)
    const [slow, fast] = [Math.min(...rates), Math.max(...rates)]
    expect(fast / slow).toBeCloseTo(20 / 15)
    expect(rates.filter((rate) => rate === slow)).toHaveLength(24)
  })
})

describe('the arrivals of tokens', () => {
  it('are those of the pieces of text, the last token with the last piece', () => {
    expect(spreadOver([10, 20, 30], 3)).toEqual([10, 20, 30])
    expect(spreadOver([10, 20], 4)).toEqual([10, 10, 20, 20])
    expect(spreadOver([10, 20, 30], 4)).toEqual([10, 20, 30, 30])
    expect(spreadOver([], 4)).toEqual([])
  })
})

/** An answer of `tokens` tokens, the first at `ttftMs`, the others every `everyMs`. */
const sample = (ttftMs: number, everyMs: number, tokens: number, fields: Partial<FlowSample> = {}): FlowSample => ({
  atMs: 0,
  promptTokens: 10,
  tokensPerS: 10,
  arrivedMs: Array.from({ length: tokens }, (_, i) => ttftMs + i * everyMs),
  error: null,
  ...fields,
})
const run = (fields: Partial<FlowRun>): FlowRun => ({
  measured: 'compared',
  server: 'tokenflow',
  workload: 'burst 60 SL',
  seed: 1,
  saturatedTokensPerS: 100,
  fastBytes: 1,
  overcommitment: 4,
  bridgeCore: 0.9,
  readersCore: 0.1,
  samples: [sample(100, 100, 100)],
  ...fields,
})
const restarts = [
  { coldMs: 100, continuedMs: 10, nextTurnMs: 15, continuedRows: 50, nextTurnRows: 60 },
  { coldMs: 200, continuedMs: 30, nextTurnMs: 60, continuedRows: 50, nextTurnRows: 60 },
  { coldMs: 100, continuedMs: 50, nextTurnMs: 16, continuedRows: 90, nextTurnRows: 60 },
]

const costs = {
  turns: [
    { withTier: { tokensPerS: 98, overhead: 0.02 }, without: { tokensPerS: 100, overhead: 0.01 } },
    { withTier: { tokensPerS: 99, overhead: 0.04 }, without: { tokensPerS: 100, overhead: 0.01 } },
    { withTier: { tokensPerS: 90, overhead: 0.03 }, without: { tokensPerS: 100, overhead: 0.01 } },
  ],
}

describe('the figures of a run', () => {
  it('count every token of an answer that comes as it is read', () => {
    const { ttftMeanMs, rawTokensPerS, effectiveTokensPerS, stalls, totalS } = figuresOf(run({}))
    expect({ ttftMeanMs, stalls, totalS }).toEqual({ ttftMeanMs: 100, stalls: 0, totalS: 10 })
    expect(effectiveTokensPerS).toBeCloseTo(rawTokensPerS!)
    expect(rawTokensPerS).toBeCloseTo(10)
  })

  it('count little of an answer that comes faster than it is read', () => {
    const { rawTokensPerS, effectiveTokensPerS } = figuresOf(run({ samples: [sample(0, 10, 100)] }))
    // Unread: 0.9 per token. Full weight up to 11 tokens, none from 22 on.
    expect(effectiveTokensPerS! / rawTokensPerS!).toBeGreaterThan(0.13)
    expect(effectiveTokensPerS! / rawTokensPerS!).toBeLessThan(0.2)
  })

  it('add the time without a token to read', () => {
    const late = sample(0, 100, 2, { arrivedMs: [0, 1_100] })
    expect(figuresOf(run({ samples: [late] }))).toMatchObject({ stalls: 1, stalledS: 1 })
  })

  it('are null where no token came', () => {
    const figures = figuresOf(run({ samples: [sample(0, 0, 0, { error: 'refused' })] }))
    expect(figures).toMatchObject({ ttftMeanMs: null, ttftP99Ms: null, rawTokensPerS: null, totalS: null, qos: null })
  })
})

describe('the summary', () => {
  const pair = (seed: number, own: number, fcfs: number) => [
    run({ seed, samples: [sample(own, 100, 100)] }),
    run({ seed, server: 'fcfs', samples: [sample(fcfs, 100, 100)] }),
  ]

  it('compares runs of one workload and seed, and takes the median', () => {
    const runs = [...pair(1, 100, 1_000), ...pair(2, 100, 200), ...pair(3, 100, 500)]
    expect(summaryOf(flowFigures, { runs, costs, restarts }).meanTtftOverFcfs).toBeCloseTo(0.2)
    expect(serverRatio(runs, 'ttftMeanMs', ['tokenflow', 'fcfs'], 'mooncake')).toBeNull()
  })

  it('keeps bursts apart from other arrivals, and is null without runs', () => {
    const spread = pair(1, 100, 400).map((each) => ({ ...each, workload: 'Poisson 2' as const }))
    const summary = summaryOf(flowFigures, { runs: spread, costs, restarts })
    expect(summary.meanTtftOverFcfs).toBeNull()
    expect(summary.meanTtftOverFcfsSpread).toBeCloseTo(0.25)
  })

  it('compares what a crowd sees with the default policy, and its stalls with those of FCFS too', () => {
    const crowd = (server: FlowRun['server'], ttftMs: number, stallMs: number) =>
      run({
        measured: 'crowds',
        workload: 'overloading crowd',
        server,
        samples: [sample(0, 100, 2, { arrivedMs: [ttftMs, ttftMs + 100 + stallMs] })],
      })
    const summary = summaryOf(flowFigures, {
      runs: [crowd('tokenflow', 200, 300), crowd('default', 400, 600), crowd('fcfs', 800, 100)],
      costs,
      restarts,
    })
    expect(summary).toMatchObject({
      meanTtftOverDefaultOverload: 0.5,
      p99TtftOverDefaultOverload: 0.5,
      meanTtftOverDefaultMatched: null,
    })
    expect(summary.stalledOverDefaultOverload).toBeCloseTo(0.5)
    expect(summary.stalledOverFcfsOverload).toBeCloseTo(3)
    expect(summary.meanTtftOverFcfs).toBeNull()
  })

  it('takes the median cost of write-through, and counts failed requests', () => {
    const summary = summaryOf(flowFigures, {
      runs: [run({ samples: [sample(0, 0, 0, { error: 'refused' }), sample(1, 1, 5)] })],
      costs,
      restarts,
    })
    expect(summary.writeThroughCost).toBeCloseTo(0.02)
    expect(summary.stepLoopOverhead).toBeCloseTo(0.03)
    expect(summary.failedRequests).toBe(1)
    expect([summary.warmTtftAfterRestart, summary.nextTurnAfterRestart]).toEqual([0.15, 0.16])
  })

  it('has every goal', () => {
    expect(Object.keys(summaryOf(flowFigures, { runs: [], costs: { turns: [] }, restarts: [] }))).toEqual(
      expect.arrayContaining(Object.keys(tokenFlowBench.goals)),
    )
  })
})

it('counts the requests that wait, and those between their first and last token', () => {
  const samples = [sample(100, 100, 3), sample(200, 100, 2, { atMs: 100 })]
  expect(loadOverTime(samples, [0, 50, 150, 250, 350, 450])).toEqual({
    waiting: [1, 1, 1, 1, 0, 0],
    running: [0, 0, 1, 1, 1, 0],
  })
})

describe('the report', () => {
  const runs = (['fcfs', 'chunked', 'andes', 'tokenflow', 'no offload'] as const).flatMap((server) =>
    workloadNames.map((workload) =>
      run({ server, workload, measured: server === 'no offload' ? 'ablation' : 'compared', samples: [sample(100, 100, 40)] }),
    ),
  )
  const machine = { cpu: 'c', memoryGiB: 1, platform: 'linux', node: '20', loadAverageBefore: 1, loadAverageAfter: 1 }
  const conditions = {
    ...machine,
    command: 'brim bench tokenflow',
    startedAt: 'now',
    commit: 'a',
    model: 'm',
    format: 'fp32',
    modelId: 'abc',
    overcommitment: 4,
    cores: null,
  }

  it.each([
    ['runs of everything', runs],
    ['nothing', []],
  ])('of %s is a page and a figure without undefined values', (_, all) => {
    const document = {
      bench: 'tokenflow',
      conditions,
      summary: summaryOf(flowFigures, { runs: all, costs, restarts }),
      runs: all,
    }
    const page = benchPage(document, tokenFlowBench.report, tokenFlowBench.goals)
    const figure = renderFigure(tokenFlowBench.report.figure(document))
    for (const text of [page, figure]) expect(text).not.toMatch(/undefined|NaN|Infinity/)
  })
})
