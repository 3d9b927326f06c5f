import { describe, expect, it } from 'vitest'
import { measurePlans, stepsPerInterval, tokenFlowPlanBench } from '../../../lab/bench/tokenflow-plan.ts'

describe('the figures of bench tokenflow-plan', () => {
  it('average one choice and the other plans of an interval', () => {
    const runs = [
      { requests: 1_000, choiceMs: [1, 2, 9], otherMs: [0.5] },
      { requests: 10_000, choiceMs: [20], otherMs: [0] },
    ]
    const { summary } = tokenFlowPlanBench.resultOf({ conditions: {}, runs })
    expect(summary).toMatchObject({ choiceMsAt1k: 2, otherMsAt1k: 0.5, choiceMsAt10k: 20 })
    expect(summary.planMsAt1k).toBeCloseTo((2 + (stepsPerInterval - 1) * 0.5) / stepsPerInterval)
    expect(summary.planMsAt10k).toBeCloseTo(20 / stepsPerInterval)
  })

  it('come from plans of the policy', () => {
    const { choiceMs, otherMs } = measurePlans(50, 3)
    expect(choiceMs).toHaveLength(3)
    expect(otherMs).toHaveLength(3 * (stepsPerInterval - 1))
    for (const ms of [...choiceMs, ...otherMs]) expect(ms).toBeGreaterThan(0)
  })
})
