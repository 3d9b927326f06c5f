import { describe, expect, it } from 'vitest'
import { localWaitMs, remoteStarts } from '../../../core/policy/disco/dispatch.ts'
import { discoPlanBench } from '../../../lab/bench/disco-plan.ts'
import { measurePlans } from '../../../lab/simulate/paper/disco/plan-times.ts'
import { sortedDistribution, sortedLengths } from '../../../lab/simulate/paper/disco/sorted-samples.ts'
import { atomsOf, exactLengths, stepDistribution } from '../../support/distributions.ts'

describe('the figures of bench disco-plan', () => {
  it('are those of the slower policy, after 100,000 samples', () => {
    const times = { updateUs: [1, 2, 9], planUs: [4_000], allLengthsMs: [3], sortedMs: [7] }
    const runs = [
      { ...times, samples: 100_000, constrained: 'server' as const },
      { ...times, samples: 100_000, constrained: 'device' as const, updateUs: [1, 1, 1], planUs: [5_000] },
    ]
    const { summary } = discoPlanBench.resultOf({ conditions: {}, runs })
    expect(summary).toMatchObject({ planMs100k: 5, updateUs: 2, allLengthsMs100k: 3, sortedMs100k: 7 })
  })

  it('come from updates and plans of the policy', () => {
    const { updateUs, planUs, allLengthsMs, sortedMs } = measurePlans('device', 100, 10)
    expect([updateUs, planUs, allLengthsMs, sortedMs].map(({ length }) => length)).toEqual([10, 10, 10, 1])
    for (const time of [...updateUs, ...planUs, ...allLengthsMs, ...sortedMs]) expect(time).toBeGreaterThan(0)
  })

  it('compare with the policy on the samples themselves', () => {
    const samples = [50, 10, 20, 20, 400, 30]
    const atoms = atomsOf(samples.map((value) => [value, 1]))
    const sorted = sortedLengths(Float64Array.from(samples))
    expect(sorted.all).toEqual([10, 20, 30, 50, 400])
    for (const share of [0.03, 0.2, 0.5, 0.9])
      for (const length of [5, 10, 20, 25, 50, 400, 500]) {
        const own = { share, remoteTtftMs: sortedDistribution(Float64Array.from(samples)), promptLengths: sorted }
        const exact = { share, remoteTtftMs: stepDistribution(atoms), promptLengths: exactLengths(atoms) }
        expect(localWaitMs(length, own)).toBe(localWaitMs(length, exact))
        expect(remoteStarts(length, own)).toBe(remoteStarts(length, exact))
      }
  })
})
