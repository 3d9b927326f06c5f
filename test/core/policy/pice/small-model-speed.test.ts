import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  correctedFactor,
  exceededFactor,
  type MeasuredSmallModel,
  speedOf,
  speedupAt,
} from '../../../../core/policy/pice/small-model-speed.ts'

const measured: MeasuredSmallModel = {
  model: 'small',
  ttftMs: 100,
  tpotMs: 20,
  loadMs: 1_500,
  parallel: [
    [1, 1],
    [4, 2.5],
    [8, 3.3],
  ],
  tokensPerLlmToken: 1.5,
}

describe('the speed of a small model', () => {
  it('is in seconds per token of the LLM', () => {
    expect(speedOf(measured)).toEqual({
      model: 'small',
      loadS: 1.5,
      ttftS: 0.1,
      tpotS: 0.03,
      parallel: measured.parallel,
      ability: undefined,
    })
  })

  it('has a prompt and a context in tokens of the LLM, too', () => {
    const { prefillS, contextTokens } = speedOf({ ...measured, prefillTokensPerS: 300, contextTokens: 600 }, 2)
    expect(prefillS).toBeCloseTo(0.01)
    expect(contextTokens).toBe(400)
  })

  it('of several sequences lies between the measured points, and stays at the last', () => {
    const speedups = [1, 2, 4, 6, 8, 100].map((n) => speedupAt(measured.parallel, n))
    for (const [at, expected] of [1, 1.5, 2.5, 2.9, 3.3, 3.3].entries()) expect(speedups[at]).toBeCloseTo(expected)
    expect(speedupAt([], 16)).toBe(1)
    // Noise of a measurement: together they are never slower than one after the other.
    expect(speedupAt([[2, 0.8]], 2)).toBe(1)
  })
})

describe('the correction of a measured speed', () => {
  const run = (slower: number) => ({ sequences: 4, tokens: 104, tookMs: slower * (100 + (100 * 20) / 2.5) })
  const factorAfter = (slower: number, runs: number) => {
    let factor = 1
    for (let at = 0; at < runs; at++) factor = correctedFactor(factor, measured, run(slower))
    return factor
  }

  it('stays at 1 while runs take as long as expected', () => {
    expect(factorAfter(1, 10)).toBeCloseTo(1)
  })

  it.each([0.5, 3])('follows a device that takes %f times the expected time', (slower) => {
    expect(factorAfter(slower, 20)).toBeCloseTo(slower, 1)
    expect(speedOf(measured, factorAfter(slower, 20)).tpotS).toBeCloseTo(slower * 0.03, 2)
  })

  it('is moved little by one run, even if the device slept in it', () => {
    expect(factorAfter(1_000, 1)).toBeLessThan(2.1)
    expect(correctedFactor(1, measured, { sequences: 1, tokens: 0, tookMs: 5_000 })).toBe(1)
  })
})

describe('the correction by a job that did not end in time', () => {
  const factors = fc.double({ min: 1 / 16, max: 16, noNaN: true })
  const overruns = fc.double({ min: 0, max: 1e6, noNaN: true })

  it('never makes a device faster, moves it by a quarter of the way at most, and stays within 16', () => {
    fc.assert(
      fc.property(factors, overruns, (factor, overrun) => {
        const after = exceededFactor(factor, overrun)
        const bound = factor * Math.max(1, overrun) ** 0.25
        return after >= factor && after <= Math.max(factor, bound) * (1 + 1e-9) && after <= 16 * (1 + 1e-9)
      }),
      {
        examples: [
          [16, 1e6],
          [1, 1],
          [1, 0],
          [1 / 16, 1e6],
        ],
      },
    )
  })

  it('is greater for a job that was given more time', () => {
    fc.assert(
      fc.property(factors, overruns, overruns, (factor, a, b) => {
        expect(exceededFactor(factor, Math.max(a, b))).toBeGreaterThanOrEqual(exceededFactor(factor, Math.min(a, b)))
      }),
    )
  })

  it('reaches a device that is slower than jobs last, and stays below its true factor', () => {
    // Each job is given up after twice its predicted time: the device takes five times what was measured.
    let factor = 1
    for (let at = 0; at < 40; at++) factor = exceededFactor(factor, Math.min(2, 5 / factor))
    expect(factor).toBeLessThanOrEqual(5 * (1 + 1e-9))
    expect(factor).toBeGreaterThan(4.5)
  })
})
