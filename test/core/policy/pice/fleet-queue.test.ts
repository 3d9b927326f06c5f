import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { batchByLength } from '../../../../core/policy/pice/dispatch-rules.ts'
import { FleetQueue, keepsBudgets, worthTaking } from '../../../../core/policy/pice/fleet-queue.ts'
import { deviceCount, type ExpandingDevice, type SmallModelSpeed } from '../../../../core/policy/pice/state.ts'

const terms = { tokensPerSentence: 1_000, candidates: 1 }
const model = (tpotS: number): SmallModelSpeed => ({
  ...{ model: 'm', loadS: 5, ttftS: 0, tpotS, parallel: [], ability: undefined },
})
/** Takes so many seconds for 11 tokens. */
const device = (name: string, seconds: number, busyS = 0): ExpandingDevice => ({
  ...{ device: name, models: [model(seconds / 10)], current: 'm', busyS, networkS: 0 },
})
const waiting = (id: string, fields = {}) => ({ id, expectedTokens: 11, waitedS: 0, ...fields })
const queue = (devices: readonly ExpandingDevice[], ...expansions: ReturnType<typeof waiting>[]) =>
  new FleetQueue(devices, terms).queueS(expansions)

describe('the queue of the fleet', () => {
  it('is worked off by all devices, each at its speed', () => {
    expect(queue([device('a', 10)], waiting('1'), waiting('2'))).toEqual([10, 20])
    expect(queue([device('a', 10), device('b', 10)], waiting('1'), waiting('2'))).toEqual([5, 10])
    // 1/10 and 1/40 expansions per second.
    expect(queue([device('a', 10), device('b', 40)], waiting('1'))).toEqual([8])
  })

  it('waits for what devices are busy with', () => {
    expect(queue([device('a', 10, 4)], waiting('1'))).toEqual([14])
    // a alone for 5 s does half of it.
    expect(queue([device('a', 10), device('b', 10, 5)], waiting('1'))).toEqual([7.5])
    expect(queue([device('a', 10), device('b', 10, 99)], waiting('1'))).toEqual([10])
  })

  it('counts with sketches that are still written, from then on', () => {
    expect(queue([device('a', 10)], waiting('2', { arrivesInS: 30 }), waiting('1'))).toEqual([10, 40])
    expect(queue([device('a', 10)], waiting('2', { arrivesInS: 3 }), waiting('1'))).toEqual([10, 20])
  })

  it('counts each candidate of an expansion, and the opening of a model', () => {
    const of = (a: ExpandingDevice, candidates: number) => new FleetQueue([a], { ...terms, candidates }).queueS([waiting('1')])
    // 22 tokens take 21 steps.
    expect(of(device('a', 10), 2)).toEqual([21])
    expect(of({ ...device('a', 10), current: undefined }, 1)).toEqual([15])
  })
})

describe('devices that are alike', () => {
  const any = fc.record({
    kinds: fc.array(
      fc.record({ seconds: fc.integer({ min: 1, max: 60 }), busyS: fc.nat({ max: 30 }), count: fc.integer({ min: 1, max: 5 }) }),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
    waits: fc.array(
      fc.record({
        expectedTokens: fc.integer({ min: 2, max: 40 }),
        waitedS: fc.nat({ max: 20 }),
        arrivesInS: fc.nat({ max: 5 }),
      }),
      {
        minLength: 1,
        maxLength: 6,
      },
    ),
  })
  const fleets = (kinds: readonly { readonly seconds: number; readonly busyS: number; readonly count: number }[]) => ({
    together: kinds.map(({ seconds, busyS, count }, at) => ({ ...device(`${at}`, seconds, busyS), count })),
    apart: kinds.flatMap(({ seconds, busyS, count }, at) =>
      Array.from({ length: count }, (_, i) => device(i === 0 ? `${at}` : `${at}.${i}`, seconds, busyS)),
    ),
  })

  it('may be one entry', () => {
    fc.assert(
      fc.property(any, ({ kinds, waits }) => {
        const { together, apart } = fleets(kinds)
        const expansions = waits.map((fields, at) => waiting(`${at}`, fields))
        const [one, each] = [new FleetQueue(together, terms), new FleetQueue(apart, terms)]
        for (const without of [undefined, '0']) {
          const [a, b] = [one.queueS(expansions, without), each.queueS(expansions, without)]
          expect(a).toEqual(b.map((seconds) => expect.closeTo(seconds, 6)))
          expect(one.soonestS(11, 3, without)).toBe(each.soonestS(11, 3, without))
        }
        expect(one.isAlone('0')).toBe(each.isAlone('0'))
        const taken = (fleet: FleetQueue) => worthTaking(together[0]!, fleet, expansions, 10).map(({ id }) => id)
        expect(taken(one)).toEqual(taken(each))
        expect(deviceCount(together)).toBe(deviceCount(apart))
      }),
    )
  })
})

describe('an idle device', () => {
  const names = (taken: readonly { readonly id: string }[]) => taken.map(({ id }) => id)
  const worth = (
    idle: ExpandingDevice,
    others: readonly ExpandingDevice[],
    expansions: ReturnType<typeof waiting>[],
    maxWaitS = 99,
  ) => worthTaking(idle, new FleetQueue([idle, ...others], terms), expansions, maxWaitS)
  const three = [waiting('young'), waiting('older', { waitedS: 1 }), waiting('oldest', { waitedS: 2 })]

  it('leaves to faster devices what they finish sooner', () => {
    const slow = device('slow', 35)
    expect(names(worth(slow, [device('fast', 10)], three))).toEqual(['young'])
    expect(names(worth(slow, [device('fast', 10, 10)], three))).toEqual(['older', 'young'])
    expect(names(worth(slow, [device('fast', 10, 20)], three))).toHaveLength(3)
    expect(names(worth(slow, [], three))).toHaveLength(3)
  })

  it('takes what is not much sooner elsewhere, unless it would be late for it', () => {
    const similar = device('similar', 14)
    const taken = (budgetS?: number) => {
      const one = waiting('1', budgetS === undefined ? {} : { budgetS })
      return worth(similar, [device('fast', 10)], [one]).length
    }
    expect([taken(), taken(14), taken(13), taken(9)]).toEqual([1, 1, 0, 1])
  })

  it('takes what has waited too long, and longer than it takes', () => {
    const slow = device('slow', 50)
    const aged = [waiting('young'), waiting('older', { waitedS: 49 }), waiting('oldest', { waitedS: 50 })]
    expect(names(worth(slow, [device('fast', 1)], aged, 2))).toEqual(['oldest'])
    expect(names(worth(slow, [device('fast', 1)], aged, 51))).toEqual([])
  })

  it('takes anything among equal devices, and the fastest takes anything', () => {
    const busy = fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 5 })
    fc.assert(
      fc.property(busy, fc.integer({ min: 10, max: 20 }), (busyS, seconds) => {
        const fastest = device('idle', 10)
        const others = busyS.map((one, at) => device(`d${at}`, seconds, one))
        expect(worth(fastest, [...others], three)).toHaveLength(3)
      }),
    )
  })

  it('takes as many of like lengths as it finishes in time', () => {
    const idle = device('idle', 10)
    const taken = (budgetS: number) =>
      batchByLength(4)(
        three.map((one) => ({ ...one, budgetS })),
        { device: idle, idleDevices: 1, fleet: new FleetQueue([idle], terms) },
      )
    expect(names(taken(99))).toEqual(['oldest', 'older', 'young'])
    expect(names(taken(21))).toEqual(['oldest', 'older'])
    expect(names(taken(1))).toEqual(['oldest'])
    expect(keepsBudgets(idle, terms)(three)).toBe(true)
  })
})
