import { describe, expect, it } from 'vitest'
import type { ServingPolicy, StreamState } from '../../../../core/policy/serving/policy.ts'
import { Reader } from '../../../../core/policy/serving/reader.ts'
import { createServingPolicy, type ServingPolicyName, servingPolicyNames } from '../../../../lab/baselines/serving-policies.ts'
import { answerState, stateOf, streamState } from '../../../support/serving-state.ts'

const device = (id: number, fields: Partial<StreamState> = {}) => streamState(id, { kvBytes: 100, ...fields })
const answer = (id: number, fields: Partial<StreamState> = {}) => answerState(id, { kvBytes: 100, fullBytes: 100, ...fields })
const full = { memory: { budgetBytes: 300, usedBytes: 300 } }

/** The streams, by their ids, that a plan preempts, resumes and runs. */
function planOf(policy: ServingPolicy, streams: readonly StreamState[], fields: Parameters<typeof stateOf>[1] = full) {
  const { preempt, resume, run } = policy.plan(stateOf(streams, fields), 1_000)
  const ids = (entries: readonly { readonly stream: number }[]) => entries.map(({ stream }) => stream).sort()
  return { preempt: [...preempt].sort(), resume: ids(resume), run: ids(run) }
}

describe.each(servingPolicyNames)("devices' streams under %s", (name) => {
  const policy = () => createServingPolicy(name, { promptRows: 64, minPromptRows: 16 })
  const fresh = device(9, { residency: 'evicted', contextLength: 0, waitingRows: 64, phase: 'prefill' })

  it('get memory for their next rows from an answer, and use it once the answer has left', () => {
    const growing = device(3, { growthBytes: 100 })
    expect(planOf(policy(), [answer(1), answer(2), growing])).toMatchObject({ preempt: [expect.any(Number)] })
    const [left] = planOf(policy(), [answer(1), answer(2), growing]).preempt
    expect([1, 2]).toContain(left)
    const others = [answer(1), answer(2)].filter(({ id }) => id !== left)
    const leaving = answer(left!, { residency: 'in flight' })
    const meanwhile = planOf(policy(), [...others, leaving, growing], { ...full, leavingBytes: 100 })
    expect(meanwhile).toMatchObject({ preempt: [], resume: [] })
    expect(meanwhile.run).not.toContain(3)
    const evicted = answer(left!, { residency: 'evicted' })
    const after = planOf(policy(), [...others, evicted, growing], { memory: { budgetBytes: 300, usedBytes: 200 } })
    expect(after.resume).toEqual([])
    expect(after.run).toContain(3)
  })

  it('get memory for a new session from an answer', () => {
    const { preempt, resume } = planOf(policy(), [answer(1), answer(2), answer(3), fresh])
    expect(preempt).toHaveLength(1)
    expect(resume).toEqual([])
    const free = planOf(policy(), [answer(1), answer(2), fresh], { memory: { budgetBytes: 300, usedBytes: 200 } })
    expect(free).toMatchObject({ preempt: [], resume: [9] })
  })

  it('take the memory of no answer if all of it would not be enough', () => {
    expect(planOf(policy(), [answer(1), device(2), device(3, { growthBytes: 200 })])).toMatchObject({ preempt: [] })
  })

  it('take the memory of later sessions where no answer holds any, of idle ones too', () => {
    const idle = device(8, { waitingRows: 0 })
    expect(planOf(policy(), [device(1, { growthBytes: 100 }), device(2), idle])).toEqual({ preempt: [8], resume: [], run: [2] })
    const [early, late] = [device(1, { waitingRows: 0 }), device(2, { growthBytes: 100 })]
    expect(planOf(policy(), [early, late, device(3, { resumptions: [] })])).toEqual({ preempt: [], resume: [], run: [3] })
  })

  it('keep free memory for a session that waits for more', () => {
    const large = device(9, { residency: 'evicted', kvBytes: 200 })
    const waiting = answer(4, { residency: 'evicted', contextLength: 0 })
    const plan = planOf(policy(), [answer(1), answer(2), large, waiting], { memory: { budgetBytes: 300, usedBytes: 200 } })
    expect(plan.preempt).toHaveLength(1)
    expect(plan.resume).toEqual([])
  })
})

describe("the reader of a device's stream", () => {
  const nowMs = 1_000
  /** A session without waiting rows, whose reader has so many seconds to read. */
  const idle = (lastsS: number) => {
    const reader = new Reader(5, 1_000, 0)
    reader.report(5 * lastsS, nowMs)
    return device(1, { waitingRows: 0, reader })
  }
  const fresh = answer(5, { residency: 'evicted', contextLength: 0, waitingRows: 64, phase: 'prefill' })
  const plan = (name: ServingPolicyName, session: StreamState) =>
    planOf(createServingPolicy(name, { promptRows: 64, minPromptRows: 16 }), [session, device(2), device(3), fresh])

  it('preempts it for an answer while it has much to read, under tokenflow alone', () => {
    expect(plan('tokenflow', idle(60))).toMatchObject({ preempt: [1] })
    expect(plan('tokenflow', idle(0.5)).preempt).toEqual([])
    expect(plan('tokenflow', { ...idle(60), resumptions: [] }).preempt).toEqual([])
    for (const name of ['decode-first', 'fcfs', 'chunked'] as const) expect(plan(name, idle(60)).preempt).toEqual([])
  })
})
