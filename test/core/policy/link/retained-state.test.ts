import { describe, expect, it } from 'vitest'
import { isLateWill, onOwnState } from '../../../../core/policy/link/retained-state.ts'

describe("the device's own retained state", () => {
  it.each([
    ['the present one', { state: 'ready', birth: 7 }, 'ignore'],
    ['the state of an earlier start', { state: 'ready', birth: 6 }, 'republish'],
    ['a late will of an earlier start', { state: 'lost', birth: 6 }, 'republish'],
    ['the will of this start', { state: 'lost', birth: 7 }, 'republish'],
    ['a will from before a reinstallation', { state: 'lost', birth: 57 }, 'republish'],
    ['the state of a second agent', { state: 'ready', birth: 8 }, 'conflict'],
  ] as const)('%s', (_, retained, expected) => {
    expect(onOwnState(retained, 7)).toBe(expected)
  })
})

describe("a bridge's state is a late will", () => {
  it.each([
    ['of an earlier birth', 'lost', 8, 9, true],
    ['not of the present birth', 'lost', 9, 9, false],
    ['not if the bridge is alive with a lower birth: its store was lost', 'ready', 1, 9, false],
    ['not if the bridge was unknown', 'lost', 8, undefined, false],
  ] as const)('%s', (_, state, birth, lastBirth, expected) => {
    expect(isLateWill({ state, birth }, lastBirth)).toBe(expected)
  })
})
