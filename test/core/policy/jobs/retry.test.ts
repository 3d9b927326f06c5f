import { expect, it } from 'vitest'
import { attemptFailures, retryDelayMs, retryRules } from '../../../../core/policy/jobs/retry.ts'

it.each(attemptFailures)('delays a retry after %s uniformly below a doubling bound, until no retries are left', (failure) => {
  const { retries, baseMs, maxMs } = retryRules[failure]
  for (let count = 1; count <= retries; count++) {
    const bound = Math.min(maxMs, baseMs * 2 ** (count - 1))
    expect(retryDelayMs(failure, count, { next: () => 0 })).toBe(0)
    expect(retryDelayMs(failure, count, { next: () => 0.75 })).toBe(0.75 * bound)
  }
  expect(retryDelayMs(failure, retries + 1, { next: () => 0.5 })).toBeUndefined()
})
