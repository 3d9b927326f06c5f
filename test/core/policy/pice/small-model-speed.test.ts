import { describe, expect, it } from 'vitest'
import { correctedFactor, type MeasuredSmallModel, speedOf, speedupAt } from '../../../../core/policy/pice/small-model-speed.ts'

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
