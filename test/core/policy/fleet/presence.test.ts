import { expect, it } from 'vitest'
import { hasMissedHeartbeats, isConnected, isPresent, takesJobs } from '../../../../core/policy/fleet/presence.ts'

it.each([
  ['init', true, false, false],
  ['ready', true, true, true],
  ['draining', true, true, false],
  ['disconnected', false, false, false],
  ['lost', false, false, false],
] as const)('derives from the state %s whether a device is connected, present and takes jobs', (state, ...expected) => {
  expect([isConnected(state), isPresent(state), takesJobs(state)]).toEqual(expected)
})

it('counts a device as silent after three missed heartbeats, if it announces an interval', () => {
  expect(hasMissedHeartbeats(1_000, 10, 31_000)).toBe(false)
  expect(hasMissedHeartbeats(1_000, 10, 31_001)).toBe(true)
  expect(hasMissedHeartbeats(1_000, undefined, Number.MAX_SAFE_INTEGER)).toBe(false)
})
