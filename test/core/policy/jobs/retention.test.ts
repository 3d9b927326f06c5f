import { expect, it } from 'vitest'
import { surplusJobs } from '../../../../core/policy/jobs/retention.ts'

const limits = { maxJobs: 100, maxBytes: 1_000 }

it.each([
  ['no job within both limits', 100, 1_000, 0],
  ['the jobs above the maximum number', 103, 10, 3],
  ['the share of jobs that exceeds the maximum size, rounded up', 10, 1_500, 4],
  ['the larger of both', 120, 4_000, 90],
  ['no job of an empty database', 0, 0, 0],
])('removes %s', (_, count, usedBytes, surplus) => {
  expect(surplusJobs(count, usedBytes, limits)).toBe(surplus)
})
