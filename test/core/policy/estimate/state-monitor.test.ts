import { expect, it } from 'vitest'
import { StateMonitor } from '../../../../core/policy/estimate/state-monitor.ts'

it('smooths the tokens of a step (HAT Eq. 1), and records its delay for the batch that had it (HAT Eq. 2)', () => {
  const monitor = new StateMonitor()
  expect(monitor.batchTokens).toBe(0)
  monitor.record(10, 0.1)
  monitor.record(110, 1.1)
  expect(monitor.batchTokens).toBeCloseTo(0.8 * 10 + 0.2 * 110)
  expect(monitor.g.at(110)).toBeCloseTo(1.1)
})

it('takes the weight of the past as a parameter', () => {
  const monitor = new StateMonitor(0.5)
  for (const tokens of [10, 30]) monitor.record(tokens, 0.1)
  expect(monitor.batchTokens).toBeCloseTo(20)
})
