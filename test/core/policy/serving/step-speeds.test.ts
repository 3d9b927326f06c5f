import { expect, it } from 'vitest'
import { StepSpeeds } from '../../../../core/policy/serving/step-speeds.ts'

it('knows nothing before the first step', () => {
  const speeds = new StepSpeeds()
  expect(speeds.speeds).toEqual({ tokensPerS: undefined, prefillSPerRow: undefined })
  expect(speeds.secondsOf(16)).toBeUndefined()
})

it('predicts the time of a step from its rows', () => {
  const speeds = new StepSpeeds()
  speeds.record({ streams: 1, rows: 100, promptRows: 100, seconds: 0.1 })
  speeds.record({ streams: 1, rows: 200, promptRows: 200, seconds: 0.3 })
  expect(speeds.secondsOf(150)).toBeCloseTo(0.2)
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
