import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { privacyBench, privacyRuns } from '../../../lab/bench/privacy/bench.ts'
import { estimatedRotation, randomRotation, transposed } from '../../../lab/bench/privacy/disguises.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'

describe('brim bench privacy', () => {
  it('has its figures, a page and a plot after a small run', { timeout: 180_000 }, async () => {
    const { io } = captureIo({ env: process.env as Record<string, string> })
    const texts = { prompts: 2, training: 4, promptTokens: 9, answerTokens: 2 }
    const plan = { ...texts, splits: [1, 2], randomVocab: 512, noises: [0.3], changes: [0] }
    const result = privacyBench.resultOf(await privacyRuns(plan, { quick: true, io, progress: io.err }))
    expectFigures(privacyBench, result)
    expect(result.summary).toMatchObject({ recoveredTop1Split1: 1, recoveredTop1Split2: 1, recoveredTop1Llama: 1 })
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
})
