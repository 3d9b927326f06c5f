import { expect, it } from 'vitest'
import { mayBeginEarly } from '../../../../core/policy/pice/early-lines.ts'
import type { ExpandingDevice, FleetView } from '../../../../core/policy/pice/state.ts'

const device = (busyS: number, count = 1): ExpandingDevice => ({
  device: 'd',
  models: [],
  current: undefined,
  busyS,
  networkS: 0,
  count,
})
const progress = { sketchTokens: 100, sketchS: 2, writtenTokens: 40, lines: 2 }
const view = (...devices: ExpandingDevice[]): FleetView => ({ devices, waiting: [] })

it('devices begin early where one is idle and another is left for the rest', () => {
  expect(mayBeginEarly(progress, () => view(device(0), device(0)))).toBe(true)
  expect(mayBeginEarly(progress, () => view(device(0, 2)))).toBe(true)
  expect(mayBeginEarly(progress, () => view(device(0), device(3)))).toBe(false)
  expect(mayBeginEarly(progress, () => view())).toBe(false)
  const waiting = [{ id: 'a', expectedTokens: 100, waitedS: 0 }]
  expect(mayBeginEarly(progress, () => ({ ...view(device(0, 4)), waiting }))).toBe(false)
})

it('the fleet is not looked at for one line, or for a sketch that is complete soon', () => {
  const unseen = () => {
    throw new Error('looked at')
  }
  expect(mayBeginEarly({ ...progress, lines: 1 }, unseen)).toBe(false)
  expect(mayBeginEarly({ ...progress, writtenTokens: 90 }, unseen)).toBe(false)
  expect(mayBeginEarly({ ...progress, writtenTokens: 140 }, unseen)).toBe(false)
})
