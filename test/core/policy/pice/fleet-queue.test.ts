import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { keepsBudgets, queueS, worthTaking } from '../../../../core/policy/pice/fleet-queue.ts'
import type { ExpandingDevice, SmallModelSpeed } from '../../../../core/policy/pice/state.ts'
import { takeBatch } from '../../../../core/policy/pice/take-batch.ts'

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
  queueS({ devices, waiting: expansions }, terms)

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
    const view = { devices: [device('a', 10)], waiting: [waiting('1')] }
    // 22 tokens take 21 steps.
    expect(queueS(view, { ...terms, candidates: 2 })).toEqual([21])
    expect(queueS({ ...view, devices: [{ ...device('a', 10), current: undefined }] }, terms)).toEqual([15])
  })
})

describe('an idle device', () => {
  const names = (taken: readonly { readonly id: string }[]) => taken.map(({ id }) => id)
  const three = [waiting('young'), waiting('older', { waitedS: 1 }), waiting('oldest', { waitedS: 2 })]

  it('leaves to faster devices what they finish sooner', () => {
    const slow = device('slow', 35)
    expect(names(worthTaking(slow, [slow, device('fast', 10)], three, 99, terms))).toEqual(['young'])
    expect(names(worthTaking(slow, [slow, device('fast', 10, 10)], three, 99, terms))).toEqual(['older', 'young'])
    expect(names(worthTaking(slow, [slow, device('fast', 10, 20)], three, 99, terms))).toHaveLength(3)
    expect(names(worthTaking(slow, [slow], three, 99, terms))).toHaveLength(3)
  })

  it('takes what is not much sooner elsewhere, unless it would be late for it', () => {
    const similar = device('similar', 14)
    const taken = (budgetS?: number) => {
      const one = waiting('1', budgetS === undefined ? {} : { budgetS })
      return worthTaking(similar, [similar, device('fast', 10)], [one], 99, terms).length
    }
    expect([taken(), taken(14), taken(13), taken(9)]).toEqual([1, 1, 0, 1])
  })

  it('takes what has waited too long, and longer than it takes', () => {
    const slow = device('slow', 50)
    const aged = [waiting('young'), waiting('older', { waitedS: 49 }), waiting('oldest', { waitedS: 50 })]
    expect(names(worthTaking(slow, [slow, device('fast', 1)], aged, 2, terms))).toEqual(['oldest'])
    expect(names(worthTaking(slow, [slow, device('fast', 1)], aged, 51, terms))).toEqual([])
  })

  it('takes anything among equal devices, and the fastest takes anything', () => {
    const busy = fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 5 })
    fc.assert(
      fc.property(busy, fc.integer({ min: 10, max: 20 }), (busyS, seconds) => {
        const fastest = device('idle', 10)
        const others = busyS.map((one, at) => device(`d${at}`, seconds, one))
        expect(worthTaking(fastest, [fastest, ...others], three, 99, terms)).toHaveLength(3)
      }),
    )
  })

  it('takes as many of like lengths as it finishes in time', () => {
    const idle = device('idle', 10)
    const batches = { upToTokens: [100], maxSketches: 4, maxWaitS: 99, ...terms }
    const taken = (budgetS: number) =>
      takeBatch(
        idle,
        [idle],
        three.map((one) => ({ ...one, budgetS })),
        1,
        batches,
      )
    expect(names(taken(99))).toEqual(['oldest', 'older', 'young'])
    expect(names(taken(21))).toEqual(['oldest', 'older'])
    expect(names(taken(1))).toEqual(['oldest'])
    expect(keepsBudgets(idle, terms)(three)).toBe(true)
  })
})
