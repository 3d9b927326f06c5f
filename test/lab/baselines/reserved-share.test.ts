import { expect, it } from 'vitest'
import type { StreamState } from '../../../core/policy/serving/policy.ts'
import { ReservedShare } from '../../../lab/baselines/reserved-share.ts'

const running = (sent: number, maxTokens: number) => ({ reader: { sent, maxTokens } }) as unknown as StreamState

it('falls evenly for 600 decoding steps, from 70 % to 9.8 %', () => {
  const share = new ReservedShare()
  const values = Array.from({ length: 700 }, () => {
    share.decoded()
    return share.value
  })
  expect(values[0]).toBeCloseTo(0.7 - 0.602 / 600, 9)
  expect(values[299]).toBeCloseTo((0.7 + 0.098) / 2, 9)
  expect(values[599]).toBeCloseTo(0.098, 9)
  expect(values[699]).toBe(values[600])
})

it('is after a preemption what the running answers have, and a little more, but never more than all', () => {
  const share = new ReservedShare()
  share.preempted([running(30, 200), running(10, 200)])
  expect(share.value).toBeCloseTo((30 + 20 + 10 + 20) / 400, 9)
  share.preempted([running(100, 100)])
  expect(share.value).toBe(1)
  share.preempted([])
  expect(share.value).toBe(1)
})
