import { describe, expect, it } from 'vitest'
import { memoryTier } from '../../../cloud-bridge/serving/slow-tier-memory.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy } from '../../../core/policy/serving/policy.ts'
import { someIds, workshop } from '../../core/model/engine/models.ts'
import { servedOf, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'

const bench = shared(workshop)
const model = shared(() => bench.open({ format: 'fp32', split: 1 }))
const ordinary = decodeFirst({ promptRows: 32, minPromptRows: 8, maxStepsSkipped: 4, decodingMs: 500 })
const nothing = { evict: [], preempt: [], resume: [], run: [] }

describe('what operators see of an answer', () => {
  it('follows it from its wait over a preemption to its end, without its text', async () => {
    /** What the policy does from now on. */
    let now: 'wait' | 'run' | 'preempt' = 'wait'
    const policy: ServingPolicy = {
      plan(state, nowMs) {
        const lookAgainAtMs = nowMs + 5
        if (now === 'run') return { ...ordinary.plan(state, nowMs), lookAgainAtMs }
        if (now === 'wait') return { ...nothing, lookAgainAtMs }
        const resident = state.waiting.filter(({ residency }) => residency === 'resident')
        return { ...nothing, preempt: resident.map(({ id }) => id), lookAgainAtMs }
      },
    }
    const serving = testServing(servedOf(model), { policy, tiers: { slow: memoryTier(2 ** 24) } })
    const ids = someIds(model.manifest, 40, 1)
    const request = { ids, answered: [], eos: [], sampling: greedy, maxTokens: 200, tokensPerS: 0.5 }
    const stream = serving.openTokens('client 1/a name that it chose', request)
    const seen = () => serving.answers()[0]
    expect(seen()).toEqual({
      ...{ client: 'client 1', state: 'waiting', contextTokens: 40, generatedTokens: 0 },
      ...{ unreadTokens: 0, tokensPerS: 0.5, preemptions: 0, resumptions: 0, fastKvBytes: 0, slowKvBytes: 0 },
    })

    now = 'run'
    await expect.poll(() => seen()?.generatedTokens).toBeGreaterThan(3)
    expect(seen()).toMatchObject({ state: 'running', preemptions: 0, fastKvBytes: expect.any(Number) })
    expect(seen()!.fastKvBytes).toBeGreaterThan(0)

    now = 'preempt'
    await expect.poll(() => seen()?.fastKvBytes).toBe(0)
    const preempted = seen()!
    expect(preempted).toMatchObject({ state: 'preempted', preemptions: 1, resumptions: 0 })
    expect(preempted.slowKvBytes).toBeGreaterThan(0)
    // The reader takes one in two seconds.
    expect(preempted.unreadTokens).toBeGreaterThan(1)

    now = 'run'
    await expect.poll(() => seen()?.generatedTokens ?? 0).toBeGreaterThan(preempted.generatedTokens)
    expect(seen()).toMatchObject({ state: 'running', preemptions: 1, resumptions: 1 })
    await stream.close()
    expect(serving.answers()).toEqual([])
    await serving.close()
  })
})
