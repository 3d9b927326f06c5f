import { describe, expect, it } from 'vitest'
import { type StartState, startTimes } from '../../../../core/policy/disco/start-times.ts'

const never = Number.POSITIVE_INFINITY
const state: StartState = {
  can: { local: true, remote: true },
  isLocalFree: true,
  isRemoteSilent: false,
  costs: {},
  work: { promptTokens: 100, tokens: 100 },
  dispatch() {
    throw new Error('the budget decides only in mode auto')
  },
}

describe.each(['private', 'cloud'] as const)('mode %s', (mode) => {
  it('starts the small model where the other side is late, if it is free and may', () => {
    expect(startTimes(mode, { ...state, patienceMs: 2_000 })).toEqual({ local: 2_000, remote: 0 })
    expect(startTimes(mode, state)).toEqual({ local: never, remote: 0 })
    expect(startTimes(mode, { ...state, patienceMs: 2_000, isLocalFree: false })).toEqual({ local: never, remote: 0 })
    const alone = { ...state, patienceMs: 2_000, can: { local: false, remote: true } }
    expect(startTimes(mode, alone)).toEqual({ local: never, remote: 0 })
  })
})
