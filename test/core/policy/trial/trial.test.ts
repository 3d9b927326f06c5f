import { describe, expect, it } from 'vitest'
import {
  beginTrial,
  failTrial,
  keepTrial,
  maxTrialStarts,
  nextTrialStep,
  startTrial,
  type TrialState,
  undoTrial,
} from '../../../../core/policy/trial/trial.ts'

type State = TrialState<{ a: number }>
const kept: State = { kept: { a: 1 } }
const begun = beginTrial<{ a: number }>(kept, 'job-1', { a: 2 }, undefined)

describe('a change on trial', () => {
  it('is begun once, waited for, and then kept', () => {
    expect(nextTrialStep(kept, 'job-1', { a: 2 })).toEqual({ kind: 'begin' })
    expect(nextTrialStep(begun, 'job-1', { a: 2 })).toEqual({ kind: 'wait' })
    expect(nextTrialStep(begun, 'job-2', { a: 3 })).toEqual({ kind: 'wait' })
    const after = keepTrial(startTrial(begun))
    expect(after.kept).toEqual({ a: 2 })
    expect(nextTrialStep(after, 'job-1', { a: 2 })).toEqual({ kind: 'kept' })
    expect(nextTrialStep(after, 'job-1', { a: 1 })).toEqual({ kind: 'begin' })
  })

  it('that failed is not tried again by the same job, but by another one', () => {
    const after = failTrial(startTrial(begun), 'no bridge')
    expect(after.kept).toEqual({ a: 1 })
    expect(nextTrialStep(after, 'job-1', { a: 2 })).toEqual({ kind: 'failed', problem: 'no bridge' })
    expect(nextTrialStep(after, 'job-2', { a: 2 })).toEqual({ kind: 'begin' })
  })

  it('fails after too many starts without a decision', () => {
    let state: State = begun
    for (let start = 1; start <= maxTrialStarts; start++) state = startTrial(state)
    expect(state.trial?.starts).toBe(maxTrialStarts)
    state = startTrial(state)
    expect(state.trial).toBeUndefined()
    expect(nextTrialStep(state, 'job-1', { a: 2 })).toMatchObject({ kind: 'failed' })
  })

  it('that was undone is decided by the next start, and fails for the reason that was found first', () => {
    const found = undoTrial(begun, 'no answer')
    expect(nextTrialStep(found, 'job-1', { a: 2 })).toEqual({ kind: 'restart' })
    expect(startTrial(found).last?.problem).toBe('no answer')
    expect(failTrial(found, 'it ended').last?.problem).toBe('no answer')
  })

  it('is compared whatever the order of its fields', () => {
    const state = { kept: { a: 1, b: [1, 2] } }
    expect(nextTrialStep(state, 'j', { b: [1, 2], a: 1 })).toEqual({ kind: 'kept' })
    expect(nextTrialStep(state, 'j', { b: [2, 1], a: 1 })).toEqual({ kind: 'begin' })
  })

  it('changes nothing without a trial', () => {
    expect([startTrial(kept), keepTrial(kept), failTrial(kept, 'x')]).toEqual([kept, kept, { ...kept, last: undefined }])
  })
})
