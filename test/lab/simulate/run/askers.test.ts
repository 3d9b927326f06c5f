import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { Askers } from '../../../../lab/simulate/run/askers.ts'

const devices = [3, 4, 5, 6]

describe('the device that asks next', () => {
  it('is any of the devices', () => {
    const askers = new Askers(seededRandom(1), false)
    const asked = Array.from({ length: 40 }, () => askers.next(devices))
    expect(new Set(asked)).toEqual(new Set(devices))
    expect(new Set(asked.slice(0, 4)).size).toBeLessThan(4)
  })

  it('is a device without an answer under way, or the one with the fewest', () => {
    const askers = new Askers(seededRandom(1), true)
    const round = () => new Set(devices.map(() => askers.next(devices)))
    expect(round()).toEqual(new Set(devices))
    expect(round()).toEqual(new Set(devices))
    askers.ended(5)
    expect(askers.next(devices)).toBe(5)
    askers.ended(4)
    askers.ended(4)
    askers.ended(6)
    expect([askers.next(devices), askers.next([5, 6])]).toEqual([4, 6])
  })
})
