import { expect, it } from 'vitest'
import { AnswerPlanner } from '../../../../core/policy/pice/answer-planner.ts'
import { LengthRatio } from '../../../../core/policy/pice/length-ratio.ts'
import type { PlanPolicy } from '../../../../core/policy/pice/plan-policy.ts'

/** Sketches pay from 300 tokens on. */
const policy: PlanPolicy = ({ expectedTokens }) =>
  expectedTokens < 300
    ? { mode: 'full', reason: 'latency', fullS: 1 }
    : ({ mode: 'sketch', level: 1 } as unknown as ReturnType<PlanPolicy>)
const situation = { speed: { waitS: 0, ttftS: 1, tpotS: 0.1 }, view: { devices: [], waiting: [] }, nowMs: 0 }
const request = { isSketchRequested: false, maxTokens: Number.POSITIVE_INFINITY }

it('no length is asked for where answers as long as the longest of late would be full, until one is longer', () => {
  const planner = new AnswerPlanner({ policy, sketchShares: [0.4], foresight: new LengthRatio(), countsSketching: true })
  const isFullAtOnce = () => planner.planEarly(request, situation) !== undefined
  for (let answers = 0; answers < 15; answers++) planner.recordLength(200)
  expect(isFullAtOnce()).toBe(false)
  planner.recordLength(299)
  expect(planner.planEarly(request, situation)).toMatchObject({ mode: 'full', reason: 'latency' })
  planner.recordLength(300)
  expect(isFullAtOnce()).toBe(false)
  for (let answers = 0; answers < 64; answers++) planner.recordLength(0)
  expect(isFullAtOnce()).toBe(true)
})
