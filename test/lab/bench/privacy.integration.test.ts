import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { privacyBench, privacyRuns } from '../../../lab/bench/privacy/bench.ts'
import {
  estimatedRotation,
  randomRotation,
  rotationOfPairs,
  transposed,
  turnedRows,
} from '../../../lab/bench/privacy/disguises.ts'
import type { PrivacyRun } from '../../../lab/bench/privacy/measure.ts'
import { framesOf } from '../../../lab/bench/privacy/runs.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'

describe('brim bench privacy', () => {
  it('has its figures, a page and a plot after a small run', { timeout: 180_000 }, async () => {
    const { io } = captureIo({ env: process.env as Record<string, string> })
    const plan = {
      ...{ prompts: 2, training: 4, promptTokens: 9, answerTokens: 2, splits: [1, 2], noises: [0.1], cuts: false, changes: [0] },
      ...{ pairs: [24], others: false },
      frames: { prompts: 2, repeats: 2, answerTokens: 4, intervalsMs: [30] },
    }
    const result = privacyBench.resultOf(await privacyRuns(plan, { quick: true, io, progress: io.err }))
    const notMeasured = ['recoveredTop1Learned', 'recoveredTop1Llama', 'recoveredTop1Qwen2']
    // So short answers may have too few frames.
    expectFigures(privacyBench, result, [...notMeasured, 'promptFoundByRounds', 'promptFoundByPacedRounds'])
    const all = { recoveredTop1Split1: 1, recoveredTop1Split2: 1, recoveredTop1Defended: 1 }
    expect(result.summary).toMatchObject(all)
    const runs = result.runs as readonly PrivacyRun[]
    // From the frames that the bridge gets, in each form, of the same answers.
    expect(framesOf(runs)).toHaveLength(7)
    for (const run of framesOf(runs)) expect(run).toMatchObject({ promptTop1: 1, answerTop1: 1 })
    for (const run of framesOf(runs)) if (run.wire !== 'int8') expect(run.sameAnswers).toBe(1)
    for (const { observed, answers } of framesOf(runs)) {
      expect(answers).toBe(4)
      const { mean, low, high, chance } = observed.all
      expect(chance).toBe(1 / 2)
      expect(low).toBeLessThanOrEqual(mean)
      expect(high).toBeGreaterThanOrEqual(mean)
    }
  })

  it('an attacker finds a secret rotation by the public weights, the worse the more the secret ones differ', () => {
    const width = 16
    const random = seededRandom(1)
    const weights = Float32Array.from({ length: 40 * width }, () => random.next() - 0.5)
    const rotation = randomRotation(width, random)
    const back = transposed(rotation)
    // It is orthogonal.
    for (let i = 0; i < width; i++) {
      const row = rotation.subarray(i * width, (i + 1) * width)
      expect(row.reduce((sum, value) => sum + value * value, 0)).toBeCloseTo(1)
    }
    expect(back[1]).toBe(rotation[width])
    const error = (change: number) => {
      const estimate = estimatedRotation(weights, rotation, { change, random: seededRandom(2) })
      return Math.sqrt(estimate.reduce((sum, value, at) => sum + (value - rotation[at]!) ** 2, 0) / width)
    }
    expect(error(0)).toBeLessThan(0.01)
    expect(error(0.1)).toBeGreaterThan(error(0))
    expect(error(2)).toBeGreaterThan(error(0.1))
  })

  it('an attacker finds it by as many rows of known tokens as it has dimensions', () => {
    const width = 16
    const random = seededRandom(1)
    const rotation = randomRotation(width, random)
    const error = (count: number) => {
      const rows = Float32Array.from({ length: count * width }, () => random.next() - 0.5)
      const estimate = rotationOfPairs(rows, turnedRows(rows, rotation), width)
      return Math.sqrt(estimate.reduce((sum, value, at) => sum + (value - rotation[at]!) ** 2, 0) / width)
    }
    expect(error(4 * width)).toBeLessThan(0.01)
    expect(error(width / 2)).toBeGreaterThan(0.1)
  })
})
