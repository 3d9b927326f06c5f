import { expect, it } from 'vitest'
import { firstResend, nextResend } from '../../../../core/policy/jobs/resend.ts'

it('resends at the first tick, then after 2, 4, 8 and every 16 ticks', () => {
  let state = firstResend
  const due: number[] = []
  for (let tick = 1; tick <= 63; tick++) {
    const step = nextResend(state)
    state = step.state
    if (step.isDue) due.push(tick)
  }
  expect(due).toEqual([1, 3, 7, 15, 31, 47, 63])
})
