import { expect, it } from 'vitest'
import { StepSpeeds } from '../../../../core/policy/serving/step-speeds.ts'

it('knows nothing before the first step', () => {
  const speeds = new StepSpeeds()
  expect(speeds.speeds).toEqual({ tokensPerS: undefined, prefillSPerRow: undefined })
  expect(speeds.secondsOf(16)).toBeUndefined()
})

it('predicts the time of a step from its rows and contexts', () => {
  const speeds = new StepSpeeds()
  const pieces = (rows: number, contextLength: number) => [{ rows, contextLength, phase: 'decode' as const }]
  const seconds = (rows: number, context: number) => 0.01 + rows * 1e-3 + (context + rows) * 1e-5
  for (let at = 0; at < 300; at += 1) {
    const [rows, context] = [1 + (at % 16), (83 * at) % 1_000]
    speeds.record({ streams: 1, rows, promptRows: 0, seconds: seconds(rows, context) }, pieces(rows, context))
  }
  expect(speeds.secondsFor(pieces(4, 900))).toBeCloseTo(seconds(4, 900), 3)
  expect(speeds.secondsFor(pieces(4, 10))).toBeCloseTo(seconds(4, 10), 3)
  expect(speeds.secondsOf(12)).toBeGreaterThan(speeds.secondsOf(2)!)
})

it('learns the time of no step whose pieces are unknown', () => {
  const speeds = new StepSpeeds()
  speeds.record({ streams: 2, rows: 8, promptRows: 0, seconds: 0.1 })
  expect([speeds.secondsOf(8), speeds.speeds.tokensPerS]).toEqual([undefined, 20])
})

it('takes for Γ the number of streams at which steps without prompts yield most tokens', () => {
  const speeds = new StepSpeeds()
  speeds.record({ streams: 1, rows: 1, promptRows: 0, seconds: 0.01 })
  speeds.record({ streams: 16, rows: 16, promptRows: 0, seconds: 0.04 })
  speeds.record({ streams: 8, rows: 8, promptRows: 0, seconds: 0.03 })
  speeds.record({ streams: 16, rows: 140, promptRows: 125, seconds: 0.5 })
  expect(speeds.speeds.tokensPerS).toBeCloseTo(400)
})

it('measures the prefill in steps that are mostly prompts', () => {
  const speeds = new StepSpeeds()
  speeds.record({ streams: 9, rows: 16, promptRows: 4, seconds: 0.1 })
  expect(speeds.speeds.prefillSPerRow).toBeUndefined()
  speeds.record({ streams: 2, rows: 100, promptRows: 99, seconds: 0.2 })
  expect(speeds.speeds.prefillSPerRow).toBeCloseTo(0.002)
})
