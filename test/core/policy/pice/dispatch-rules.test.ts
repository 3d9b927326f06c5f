import { describe, expect, it } from 'vitest'
import type { BatchState } from '../../../../core/policy/pice/dispatch-rules.ts'
import { isFinal } from '../../../../core/policy/pice/plan-answer.ts'
import { dispatchRule } from '../../../../lab/baselines/sketch-policies.ts'

const waiting = [
  { id: 'new short', expectedTokens: 12, waitedS: 0 },
  { id: 'old short', expectedTokens: 10, waitedS: 3 },
  { id: 'long', expectedTokens: 1_000, waitedS: 2 },
  { id: 'short', expectedTokens: 11, waitedS: 1 },
]
const taken = (policy: 'static' | 'dynamic', idleDevices: number, maxSketches = 4) =>
  dispatchRule(policy, maxSketches)(waiting, { device: undefined, idleDevices } as BatchState).map(({ id }) => id)

describe('a job', () => {
  it('of static scheduling has the oldest sketches, shared among the idle devices', () => {
    expect(taken('static', 2)).toEqual(['old short', 'long'])
    expect(taken('static', 1)).toEqual(['old short', 'long', 'short', 'new short'])
    expect(taken('static', 1, 3)).toHaveLength(3)
  })

  it('of dynamic scheduling has sketches of like lengths', () => {
    const batch = taken('dynamic', 1)
    expect(batch.length).toBeGreaterThan(1)
    expect(batch).not.toContain('long')
  })
})

it('every reason for a long answer in full but the objectives holds for shorter ones', () => {
  const reasons = ['short', 'no-device', 'queue-full', 'latency', 'error'] as const
  expect(reasons.every(isFinal)).toBe(true)
  expect(isFinal('objectives')).toBe(false)
})
