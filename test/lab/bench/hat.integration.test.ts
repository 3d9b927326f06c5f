import { beforeAll, describe, expect, it } from 'vitest'
import { benchHat } from '../../../lab/bench/hat/bench.ts'
import { delays, type OracleRow } from '../../../lab/bench/hat/draft-oracle.ts'
import { quickPlan } from '../../../lab/bench/hat/plan.ts'
import { hatReport } from '../../../lab/bench/hat/report.ts'
import type { HatRun } from '../../../lab/bench/hat/runs.ts'
import type { BenchDocument, BenchResult } from '../../../lab/frame/bench.ts'
import { benchPage, shownOf } from '../../../lab/frame/page.ts'
import { renderFigure } from '../../../lab/plot/plot.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'

const strategies = ['hat', 'u-shape'] as const
/** Two devices with a request each, then one device alone. */
const tiny = {
  ...quickPlan,
  devices: 2,
  maxTokens: 12,
  prompts: 2,
  loaded: {
    short: { strategies, requests: 2, perS: 20 },
    long: { strategies: [], requests: 0, perS: 20 },
  },
  drafts: { prompts: 2, promptTokens: 60, maxTokens: 24 },
  alone: { strategies, short: 1, long: 0, longTokens: 8, secondTurns: 1, firstTurnTokens: 320, longest: 0 },
  busy: { ...quickPlan.busy, strategies: [] },
  rounds: { strategies, prompts: 1 },
}

let result: BenchResult
let runs: readonly HatRun[]
let progress: string
beforeAll(async () => {
  const { io, err } = captureIo({ env: process.env as Record<string, string> })
  result = await benchHat(tiny, { rtt: 4 }, { quick: true, io, progress: io.err })
  runs = result.runs as readonly HatRun[]
  progress = err()
}, 240_000)

describe('brim bench hat with invalid options', () => {
  it.each([
    ['--strategies', 'hat,magic', 'USAGE', 'magic'],
    ['--rtt', '-1', 'USAGE', '--rtt'],
    ['--rate', '0', 'USAGE', '--rate'],
    ['--seeds', '1.5', 'USAGE', '--seeds'],
    ['--net-trace', '/nowhere', 'REQUEST_INVALID', '/nowhere'],
    ['--prompts', '/nowhere', 'REQUEST_INVALID', '/nowhere'],
  ])('rejects %s %s before anything is started', async (option, value, code, named) => {
    const { io, err } = captureIo()
    const command = brim(['bench', 'hat', '--despite-load', `${option}=${value}`], io)
    await expect(command).rejects.toMatchObject({ code, message: expect.stringContaining(named) })
    expect(err()).toBe('')
  })
})

describe('brim bench hat with a tiny plan', () => {
  it('compares the length of drafts with what hindsight knows, over all delays', () => {
    const rows = result.conditions.drafts as OracleRow[]
    expect(rows.filter(({ answers }) => answers === 'all').map(({ delay }) => delay)).toEqual(Object.keys(delays))
    for (const { ownS, fixedS, clairvoyantS } of rows) {
      expect(ownS).toBeGreaterThan(0.9 * (clairvoyantS ?? 0))
      expect(fixedS).toBeGreaterThanOrEqual(clairvoyantS ?? 0)
    }
    expect(result.summary.draftOverOracle).toBeGreaterThan(0.5)
  })

  it('records every request of every run, and every answer equals the reference', () => {
    expect(runs.map(({ measured, strategy, samples }) => `${measured} ${strategy} ${samples.length}`).sort()).toEqual([
      'alone hat 1',
      'alone u-shape 1',
      'loaded hat 2',
      'loaded u-shape 2',
      'rounds hat 1',
      'rounds u-shape 1',
      'second-turn hat 1',
      'second-turn u-shape 1',
    ])
    for (const { samples } of runs)
      for (const sample of samples) {
        expect(sample).toMatchObject({ identical: true, nearTies: expect.any(Number), looping: expect.any(Boolean) })
        expect(sample.tokens).toBeGreaterThan(0)
        expect(sample.ttftMs).toBeGreaterThan(4)
        expect(sample.piecesMs).toEqual([...sample.piecesMs].sort((a, b) => a - b))
      }
    expect(result.summary.answersDifferent).toBe(0)
    expect(progress).toContain('loaded: hat, short prompts')
  })

  it('asks both strategies the same, and records every step of the bridge', () => {
    const [hat, uShape] = strategies.map(
      (strategy) => runs.find((run) => run.measured === 'loaded' && run.strategy === strategy)!,
    )
    const asked = (run: HatRun) => run.samples.map(({ prompt, promptTokens, device }) => ({ prompt, promptTokens, device }))
    expect(asked(hat!)).toEqual(asked(uShape!))
    expect(new Set(asked(hat!).map(({ device }) => device))).toEqual(new Set([0, 1]))
    for (const run of [hat!, uShape!]) {
      const tokens = run.steps.reduce((sum, step) => sum + step.tokens, 0)
      const needed = run.samples.reduce((sum, { promptTokens, rounds }) => sum + promptTokens + rounds, 0)
      expect(tokens).toBeGreaterThanOrEqual(needed)
    }
    // U-shape drafts nothing, so each round has one row, and its prompt is one step.
    const { steps } = uShape!
    for (const { promptTokens } of uShape!.samples) expect(steps.some(({ tokens }) => tokens >= promptTokens)).toBe(true)
    expect(uShape!.samples.every(({ tokens, rounds }) => rounds === tokens - 1)).toBe(true)
  })

  it('takes the rounds of both strategies apart, and each part takes its time', () => {
    const times = strategies.map(
      (strategy) => runs.find((run) => run.measured === 'rounds' && run.strategy === strategy)!.roundTimes!,
    )
    for (const { rounds, partsUs, wholeUs } of times) {
      expect(rounds).toBeGreaterThan(0)
      for (const part of ['input', 'uplink', 'middle', 'downlink', 'head'] as const) expect(partsUs[part]).toBeGreaterThan(0)
      expect(Object.values(partsUs).reduce((sum, us) => sum + us, 0)).toBeCloseTo(wholeUs, 3)
    }
    expect(times[1]).toMatchObject({ rowsUp: 1, acceptLength: 1, partsUs: { draft: 0 } })
  })

  it('reuses the cached prefix for a second turn under HAT, and not under U-shape', () => {
    const second = (strategy: string) =>
      runs.find((run) => run.measured === 'second-turn' && run.strategy === strategy)!.samples[0]!
    const [hat, uShape] = [second('hat'), second('u-shape')]
    expect(hat.promptTokens).toBe(uShape.promptTokens)
    expect(hat.promptTokens - hat.reusedTokens).toBeLessThanOrEqual(65)
    expect(uShape.reusedTokens).toBe(0)
    // The rest is drafts, of which a busy machine sends more: without the prefix it would be as much as under U-shape, and they.
    expect(hat.bytesUp).toBeLessThan(uShape.bytesUp / 2)
  })

  it('makes tables, a figure and a page, with null for what was not measured', () => {
    const { ttftOverUShapeLong, tbtOverUMedusaShort, decodeSpeedup, tbtOverUShapeShort, batch16OverSerial } = result.summary
    expect({ ttftOverUShapeLong, tbtOverUMedusaShort }).toEqual({ ttftOverUShapeLong: null, tbtOverUMedusaShort: null })
    for (const figure of [decodeSpeedup, tbtOverUShapeShort, batch16OverSerial]) expect(figure).toBeGreaterThan(0)
    const machine = { command: 'brim bench hat', cpu: 'a cpu', memoryGiB: 8, platform: 'linux x64', node: '20' }
    const frame = { ...machine, startedAt: 'now', commit: null, loadAverageBefore: 0, loadAverageAfter: 1 }
    const document: BenchDocument = { bench: 'hat', ...result, conditions: { ...frame, ...result.conditions } }
    const [headline, loaded, loops] = shownOf(document, hatReport).tables
    expect(headline!.rows.map((row) => row.slice(0, 4))).toContainEqual(['loaded', 'short', 'TBT', 'u-shape'])
    expect(loaded!.rows.map(([strategy]) => strategy)).toEqual(['hat', 'u-shape'])
    expect(loops!.rows.map(([answers, n]) => [answers, n])).toContainEqual(['all', '2'])
    const svg = renderFigure(hatReport.figure(document))
    const markdown = benchPage(document, hatReport, { decodeSpeedup: { min: 0 } })
    expect(svg).toMatch(/^<svg[\s\S]*<\/svg>\n$/)
    expect(svg).not.toContain('NaN')
    expect(markdown).toMatch(/\| decodeSpeedup \| [\d.]+ \| ≥ 0 \| reached \|/)
    expect(markdown).not.toMatch(/undefined|NaN/)
  })
})
