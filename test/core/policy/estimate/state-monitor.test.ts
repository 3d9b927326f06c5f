import { expect, it } from 'vitest'
import { StateMonitor } from '../../../../core/policy/estimate/state-monitor.ts'
import { stepOf } from '../../../support/steps.ts'

it('smooths the tokens of a step (HAT Eq. 1)', () => {
  const monitor = new StateMonitor()
  expect([monitor.batchTokens, monitor.line]).toEqual([0, undefined])
  monitor.record(stepOf(10), 0.1)
  monitor.record(stepOf(110), 1.1)
  expect(monitor.batchTokens).toBeCloseTo(0.8 * 10 + 0.2 * 110)
})

it('takes the weight of the past as a parameter', () => {
  const monitor = new StateMonitor(0.5)
  for (const tokens of [10, 30]) monitor.record(stepOf(tokens), 0.1)
  expect(monitor.batchTokens).toBeCloseTo(20)
})

it('does not count a prompt among what its chunks share their steps with', () => {
  const monitor = new StateMonitor()
  for (let at = 0; at < 50; at += 1) monitor.record({ ...stepOf(132), besidePrompt: 4 }, 0.1)
  expect(monitor.batchTokens).toBeCloseTo(4)
})

it('has a line of steps with the contexts of the latest ones', () => {
  const monitor = new StateMonitor()
  // 2 ms, 0.1 ms a token, 1 µs for each position that a token attends to.
  const seconds = (tokens: number, context: number) => 0.002 + 1e-4 * tokens + 1e-6 * tokens * (context + tokens / 2)
  for (let at = 0; at < 400; at += 1) {
    const [tokens, context] = [1 + (at % 40), (37 * at) % 500]
    monitor.record(stepOf(tokens, context), seconds(tokens, context))
  }
  const at = (context: number) => {
    for (let times = 0; times < 60; times += 1) monitor.record(stepOf(8, context), seconds(8, context))
    const { baseS, tokenS } = monitor.line!
    return baseS + 8 * tokenS
  }
  expect(at(100)).toBeCloseTo(seconds(8, 100), 4)
  expect(at(900)).toBeCloseTo(seconds(8, 900), 4)
})
