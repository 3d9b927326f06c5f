import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FreeDevices } from '../../../../core/policy/jobs/free-devices.ts'

const kinds = ['generate', 'verify'] as const
const names = ['a', 'b', 'c', 'd'] as const

it('finds the devices of a kind by their free slots, as a search through all of them would', () => {
  const device = fc.constantFrom(...names)
  const step = fc.oneof(
    fc.record({ do: fc.constant('put' as const), device, kinds: fc.subarray([...kinds]), load: fc.nat(3) }),
    fc.record({ do: fc.constant('load' as const), device, load: fc.nat(3) }),
    fc.record({ do: fc.constant('remove' as const), device }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const free = new FreeDevices(2)
      const known = new Map<string, { kinds: readonly string[]; load: number }>()
      for (const one of steps) {
        const { device } = one
        const before = known.get(device)
        if (one.do === 'put') {
          free.put(device, one.kinds, one.load)
          known.set(device, one)
        } else if (one.do === 'load') {
          free.setLoad(device, one.load)
          if (before) known.set(device, { ...before, load: one.load })
        } else {
          free.remove(device)
          known.delete(device)
        }
      }
      for (const kind of kinds) {
        const expected = [...known].filter(([, { kinds: own, load }]) => own.includes(kind) && load < 2)
        const slots = free.freest(kind, 9).map(({ freeSlots }) => freeSlots)
        expect(slots).toEqual(expected.map(([, { load }]) => 2 - load).sort((a, b) => b - a))
        expect(free.freest(kind, 9).map(({ device }) => device)).toEqual(expect.arrayContaining(expected.map(([name]) => name)))
        expect(free.freest(kind, 1)).toEqual(free.freest(kind, 9).slice(0, 1))
      }
      const idle = [...known].filter(([, { kinds: own, load }]) => own.length > 0 && load === 0).map(([name]) => name)
      expect(
        free
          .idle(9)
          .map(({ device }) => device)
          .sort(),
      ).toEqual(idle.sort())
    }),
    { seed: 1, numRuns: 300 },
  )
})

it('the device that has waited longest is first, also after its load was read again', () => {
  const free = new FreeDevices(2)
  for (const device of ['a', 'b']) free.put(device, ['generate'], 1)
  free.setLoad('a', 1)
  expect(free.freest('generate', 2).map(({ device }) => device)).toEqual(['a', 'b'])
})
