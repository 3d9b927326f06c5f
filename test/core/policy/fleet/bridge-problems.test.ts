import { expect, it } from 'vitest'
import { bridgeProblemsOf } from '../../../../core/policy/fleet/bridge-problems.ts'

it('a bridge whose GPU failed has a problem, one without a GPU has none', () => {
  const well = { storageFailure: undefined, damagedJobs: 0, upstreamProblems: [] }
  expect(bridgeProblemsOf({ ...well, computing: [{ provider: 'cpu', reason: 'no GPU driver was found (Vulkan)' }] })).toEqual([])
  const failed = { provider: 'cpu', reason: 'webgpu failed its trial: no memory', failed: true }
  expect(bridgeProblemsOf({ ...well, computing: [{ provider: 'cpu', reason: 'asked for' }, failed] })).toEqual([
    {
      kind: 'gpu',
      detail: 'the CPU computes: webgpu failed its trial: no memory',
      fix: expect.stringMatching(/brim doctor.*--provider cpu/),
    },
  ])
})

it('an upstream that gets no requests is a problem of its bridge', () => {
  const upstreamProblems = ['http://a/v1 gets no requests for large: upstream 1 cannot be reached']
  const problems = bridgeProblemsOf({ storageFailure: undefined, damagedJobs: 0, computing: [], upstreamProblems })
  expect(problems).toMatchObject([{ kind: 'upstream', detail: upstreamProblems[0], fix: expect.stringContaining('--upstream') }])
})
