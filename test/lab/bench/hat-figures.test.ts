import { describe, expect, it } from 'vitest'
import { figuresOf, gapsOf, hatFigures, predictionError } from '../../../lab/bench/hat/figures.ts'
import { headlineTable } from '../../../lab/bench/hat/headline.ts'
import { type HatRun, type Sample, stepSizesOf } from '../../../lab/bench/hat/runs.ts'
import { tablesOf } from '../../../lab/bench/hat/tables.ts'
import { summaryOf } from '../../../lab/frame/figures.ts'

const sample = (figures: Partial<Sample>): Sample => ({
  prompt: 'p',
  promptTokens: 100,
  tokens: 5,
  ttftMs: 100,
  tbtMs: 10,
  piecesMs: [],
  rounds: 2,
  acceptLength: 2,
  reusedTokens: 0,
  bytesUp: 0,
  bytesDown: 0,
  prefillTokensPerS: null,
  upBytesPerS: null,
  device: 0,
  atMs: 0,
  identical: true,
  nearTies: 0,
  looping: false,
  ...figures,
})
const run = (figures: Partial<HatRun>): HatRun => ({
  measured: 'loaded',
  strategy: 'hat',
  workload: 'short',
  seed: 1,
  devices: 8,
  rttMs: 20,
  perS: 1,
  utilisation: null,
  isVoid: false,
  samples: [sample({})],
  steps: [],
  stepSizes: { position: null, sizes: '' },
  ...figures,
})
const drafts = [{ delay: '5 ms', answers: 'all', ownS: 0.011, fixedS: 0.01, bestLength: 4, clairvoyantS: 0.008 }] as const
const batch = { togetherMs: [2, 2, 2], inTurnMs: [6, 6, 6] }

describe('the steps of a run', () => {
  it('are kept by size, with their number and median', () => {
    const steps = [1, 3, 4].map((computeMs) => ({ items: 2, tokens: 8, computeMs, predictedMs: null }))
    const other = { items: 1, tokens: 16, computeMs: 2, predictedMs: 2 }
    const samples = [sample({ promptTokens: 10, tokens: 20 })]
    expect(stepSizesOf({ samples, steps: [...steps, other] })).toEqual({
      position: 20,
      sizes: '2/8/3/3.000 1/16/1/2.000',
    })
    expect(stepSizesOf({ samples: [], steps: [] })).toEqual({ position: null, sizes: '' })
  })
})

describe('the figures of a run', () => {
  it('average TTFT over requests, and TBT and accept length over tokens', () => {
    const samples = [
      sample({ ttftMs: 100, tokens: 11, tbtMs: 10, rounds: 4 }),
      sample({ ttftMs: 300, tokens: 31, tbtMs: 30, rounds: 6 }),
    ]
    const steps = [2, 4].map((computeMs) => ({ items: 1, tokens: 1, computeMs, predictedMs: null }))
    expect(figuresOf({ samples, steps })).toEqual({
      ttftMs: 200,
      tbtMs: (10 * 10 + 30 * 30) / 40,
      acceptLength: 4,
      stepMs: 3,
      stepDeviationMs: 1,
    })
  })

  it('are null without samples; an answer of one token has no TBT', () => {
    const nothing = { ttftMs: null, tbtMs: null, acceptLength: null, stepMs: null, stepDeviationMs: null }
    expect(figuresOf({ samples: [], steps: [] })).toEqual(nothing)
    expect(figuresOf({ samples: [sample({ tokens: 1, tbtMs: null, rounds: 0 })], steps: [] }).tbtMs).toBeNull()
  })
})

describe('gaps between tokens', () => {
  it('are the times between pieces, and 0 within a piece', () => {
    expect(gapsOf(sample({ tokens: 5, piecesMs: [100, 130, 135] })).sort((a, b) => a - b)).toEqual([0, 0, 5, 30])
    expect(gapsOf(sample({ tokens: 1, piecesMs: [100] }))).toEqual([])
  })
})

describe('the summary', () => {
  const ofTbt = (strategy: HatRun['strategy'], seed: number, tbtMs: number, isVoid = false) =>
    run({ strategy, seed, isVoid, samples: [sample({ tbtMs })] })

  it('compares runs of the same seed, and takes the median over seeds', () => {
    const runs = [
      ...[ofTbt('hat', 1, 10), ofTbt('hat', 2, 10), ofTbt('hat', 3, 10)],
      ...[ofTbt('u-shape', 3, 50), ofTbt('u-shape', 1, 20), ofTbt('u-shape', 2, 40)],
    ]
    expect(summaryOf(hatFigures, { runs, batch, drafts }).tbtOverUShapeShort).toBe(0.25)
  })

  it('ignores void runs, and is null without valid runs', () => {
    const runs = [ofTbt('hat', 1, 10), ofTbt('u-shape', 1, 20), ofTbt('hat', 2, 10, true), ofTbt('u-shape', 2, 100, true)]
    expect(summaryOf(hatFigures, { runs, batch, drafts }).tbtOverUShapeShort).toBe(0.5)
    expect(summaryOf(hatFigures, { runs: runs.slice(2), batch, drafts }).tbtOverUShapeShort).toBeNull()
    expect(summaryOf(hatFigures, { runs: [], batch, drafts })).toMatchObject({
      acceptLength: null,
      gError: null,
      ttftOverLimit: null,
      batch16OverSerial: 3,
    })
  })

  it('shows the worst delay of drafts against hindsight', () => {
    const far = { ...drafts[0], delay: '300 ms', ownS: 0.03, fixedS: 0.03, clairvoyantS: undefined }
    const summary = summaryOf(hatFigures, { runs: [], batch, drafts: [...drafts, far] })
    expect(summary.draftOverOracle).toBeCloseTo(1.1)
    expect(summary.draftOverClairvoyant).toBeCloseTo(1.375)
    expect(summaryOf(hatFigures, { runs: [], batch, drafts: [] }).draftOverOracle).toBeNull()
  })

  it('compares the variation of step delays with that of U-shape for the same seed', () => {
    const steps = (delays: number[]) => delays.map((computeMs) => ({ items: 1, tokens: 1, computeMs, predictedMs: null }))
    const runs = [run({ steps: steps([9, 11]) }), run({ strategy: 'u-shape', steps: steps([5, 15]) })]
    expect(summaryOf(hatFigures, { runs, batch, drafts }).cloudDelayCvOverUShape).toBeCloseTo(0.1 / 0.5)
  })

  it('leaves looping answers out of the figures without loops', () => {
    const samples = (tbtMs: number, loopingTbtMs: number) => [
      sample({ tbtMs, tokens: 11, rounds: 5 }),
      sample({ tbtMs: loopingTbtMs, tokens: 11, rounds: 1, looping: true }),
      // Of this answer it was not recorded whether it loops.
      sample({ tbtMs: 1_000, tokens: 11, rounds: 1, looping: null }),
    ]
    const runs = [run({ samples: samples(12, 1) }), run({ strategy: 'u-shape', samples: samples(20, 20) })]
    expect(summaryOf(hatFigures, { runs, batch, drafts })).toMatchObject({
      tbtOverUShapeShortWithoutLoops: 12 / 20,
      tbtOverUShapeLongWithoutLoops: null,
      acceptLengthWithoutLoops: 2,
      acceptLength: 30 / 7,
    })
  })

  it('counts answers that differ from the reference, except those that need not equal it', () => {
    const runs = [run({ samples: [sample({ identical: false }), sample({}), sample({ identical: null })] })]
    expect(summaryOf(hatFigures, { runs, batch, drafts }).answersDifferent).toBe(1)
  })

  it('compares TTFT and its limit with U-shape on the same prompts', () => {
    const alone = { measured: 'alone', workload: 'long' } as const
    const hat = [
      sample({ ttftMs: 110, prefill: { deviceMs: 0, cloudMs: 0, networkMs: 0, limitMs: 100 } }),
      sample({ ttftMs: 330, prefill: { deviceMs: 0, cloudMs: 0, networkMs: 0, limitMs: 300 } }),
    ]
    const uShape = [sample({ ttftMs: 200 }), sample({ ttftMs: 600 })]
    const runs = [run({ ...alone, samples: hat }), run({ ...alone, strategy: 'u-shape', samples: uShape })]
    const { ttftOverUShapeLong, limitOverUShapeLong, ttftOverLimit } = summaryOf(hatFigures, { runs, batch, drafts })
    expect([ttftOverUShapeLong, limitOverUShapeLong, ttftOverLimit!.toFixed(6)]).toEqual([0.55, 0.5, '1.100000'])
  })

  it('takes the shares of TTFT from the longest prompts under U-shape', () => {
    const prefill = { deviceMs: 10, cloudMs: 30, networkMs: 160, limitMs: 100 }
    const runs = [run({ measured: 'longest', strategy: 'u-shape', samples: [sample({ ttftMs: 200, prefill })] })]
    const { sharePercentDevice, sharePercentNetwork, sharePercentCloud } = summaryOf(hatFigures, { runs, batch, drafts })
    expect([sharePercentDevice, sharePercentNetwork, sharePercentCloud]).toEqual([5, 80, 15])
  })
})

describe('the headline', () => {
  it('pairs the requests of each seed, leaves looping answers out, and has the interval around the ratio', () => {
    const answers = (tbtMs: readonly number[]) => tbtMs.map((each, at) => sample({ tbtMs: each, looping: at === 0 }))
    const own = answers([1, 10, 12, 8, 10])
    const other = answers([99, 20, 20, 20, 20])
    const runs = [run({ samples: own }), run({ strategy: 'u-shape', samples: other }), run({ seed: 2, samples: own })]
    const { rows } = headlineTable(runs)
    expect(rows.map((row) => [row[2], row[3], row[4], row[7]])).toEqual([
      ['TBT', 'u-shape', '0.500', '4'],
      ['TTFT', 'u-shape', '1.000', '4'],
    ])
    const [from, to] = [Number(rows[0]![5]), Number(rows[0]![6])]
    expect(from).toBeGreaterThanOrEqual(0.4)
    expect(from).toBeLessThan(0.5)
    expect(to).toBeGreaterThan(0.5)
    expect(to).toBeLessThanOrEqual(0.6)
  })
})

describe('the tables', () => {
  const tableOf = (runs: readonly HatRun[], title: string, conditions = {}) =>
    tablesOf({ bench: 'hat', conditions, summary: {}, runs }).find((table) => table.title.startsWith(title))!.rows

  it('attribute to each part what it changes, as a share of what HAT gains', () => {
    const ttft = (strategy: HatRun['strategy'], ttftMs: number) =>
      run({ measured: 'alone', workload: 'long', strategy, samples: [sample({ ttftMs })] })
    const runs = [ttft('u-shape', 2_000), ttft('u-shape-lean', 1_500), ttft('chunks', 1_100), ttft('hat', 1_000)]
    expect(tableOf(runs, 'What TTFT has').map(([, strategy, , change, share]) => [strategy, change, share])).toEqual([
      ['u-shape', '–', '–'],
      ['u-shape-lean', '-500.0', '50 %'],
      ['chunks', '-400.0', '40 %'],
      ['hat', '-100.0', '10 %'],
    ])
  })

  it('say device by device how HAT compares with the cloud alone', () => {
    const partsUs = { input: 0, draft: 0, uplink: 0, queue: 0, middle: 4_000, downlink: 0, overtaken: 0, head: 0, rest: 0 }
    const roundTimes = { rounds: 1, rowsUp: 3, acceptLength: 2, wholeUs: 30_000, partsUs }
    // Two tokens a round of 30 ms, of which 20 are the round trip.
    const samples = [1, 0].map((device) => sample({ device, tbtMs: 15, tokens: 5, rounds: 2 }))
    const runs = [run({ measured: 'rounds', roundTimes }), run({ samples })]
    const rows = tableOf(runs, 'HAT and the cloud alone', { cloudTokenMs: 6 })
    expect(rows).toEqual([
      ['1', '2.00', '15.0', '6.0', '2.50', '2.0', '3.00'],
      ['2', '2.00', '15.0', '6.0', '2.50', '2.0', '3.00'],
    ])
    expect(tableOf(runs, 'HAT and the cloud alone')).toEqual([])
  })

  it('show of a busy bridge how many steps hold several streams', () => {
    const steps = [1, 2, 3, 2].map((items) => ({ items, tokens: items, computeMs: 5, predictedMs: null }))
    const utilisation = { bridge: 0.9, others: 0.4, foreign: 0, computing: 0.8 }
    const busy = run({ measured: 'busy', steps, utilisation })
    expect(tableOf([busy], 'A busy bridge')[0]!.slice(2, 5)).toEqual(['80 %', '75 %', '2.00'])
    const { busyComputing, busyStepsOfSeveral } = summaryOf(hatFigures, { runs: [busy], batch, drafts })
    expect([busyComputing, busyStepsOfSeveral]).toEqual([0.8, 0.75])
  })
})

describe('the error of g', () => {
  it('is the median relative error over the steps that were predicted', () => {
    const steps = [
      { items: 1, tokens: 1, computeMs: 10, predictedMs: null },
      { items: 1, tokens: 1, computeMs: 10, predictedMs: 9 },
      { items: 1, tokens: 1, computeMs: 10, predictedMs: 12 },
      { items: 1, tokens: 1, computeMs: 10, predictedMs: 5 },
    ]
    expect(predictionError([run({ steps })])).toBeCloseTo(0.2)
  })
})
