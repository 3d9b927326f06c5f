import { expect, it } from 'vitest'
import { retryWaitMs } from '../../../../core/policy/upstream/retry.ts'

const limits = { retries: 2, maxRetryAfterMs: 30_000 }

it('waits as long as the server asks for, and a random time that grows with each failure', () => {
  expect(retryWaitMs(1, 2_000, limits, 0)).toBe(2_000)
  expect(retryWaitMs(1, 2_000, limits, 0.5)).toBe(2_125)
  expect(retryWaitMs(2, 2_000, limits, 0.5)).toBe(2_250)
})

it('gives up after the last attempt, after a permanent failure, and where the server asks for too long a wait', () => {
  expect(retryWaitMs(3, 0, limits, 0)).toBeUndefined()
  expect(retryWaitMs(1, undefined, limits, 0)).toBeUndefined()
  expect(retryWaitMs(1, 30_001, limits, 0)).toBeUndefined()
  expect(retryWaitMs(1, 30_000, limits, 0)).toBe(30_000)
})
