import { describe, expect, it } from 'vitest'
import { type StartState, startTimes } from '../../../../core/policy/disco/start-times.ts'

const never = Number.POSITIVE_INFINITY
const state: StartState = {
  can: { device: true, server: true },
  isDeviceFree: true,
  isServerSilent: false,
  costs: {},
  work: { promptTokens: 100, tokens: 100 },
  dispatch() {
    throw new Error('the budget decides only in mode auto')
  },
}

describe.each(['private', 'cloud'] as const)('mode %s', (mode) => {
  it('starts the small model where the other side is late, if it is free and may', () => {
    expect(startTimes(mode, { ...state, patienceMs: 2_000 })).toEqual({ device: 2_000, server: 0 })
    expect(startTimes(mode, state)).toEqual({ device: never, server: 0 })
    expect(startTimes(mode, { ...state, patienceMs: 2_000, isDeviceFree: false })).toEqual({ device: never, server: 0 })
    const alone = { ...state, patienceMs: 2_000, can: { device: false, server: true } }
    expect(startTimes(mode, alone)).toEqual({ device: never, server: 0 })
  })
})
