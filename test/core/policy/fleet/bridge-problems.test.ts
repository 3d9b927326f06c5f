import { expect, it } from 'vitest'
import { bridgeProblemsOf } from '../../../../core/policy/fleet/bridge-problems.ts'

it('a bridge whose GPU failed has a problem, one without a GPU has none', () => {
  const well = { storageFailure: undefined, damagedJobs: 0 }
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
