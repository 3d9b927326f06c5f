import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FairQueue } from '../../../../core/policy/admission/fair-queue.ts'

const limits = { perS: 10, maxWaitS: 2 }

it('never admits more than the rate and one at once, and loses nothing that it has accepted', () => {
  const step = fc.record({ offers: fc.nat(40), network: fc.constantFrom('a', 'b', 'c'), afterMs: fc.nat(3_000) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const queue = new FairQueue<number>(limits, 0)
      let [nowMs, accepted, admitted] = [0, 0, 0]
      for (const { offers, network, afterMs } of steps) {
        for (let item = 0; item < offers; item++) if (queue.offer(item, network, nowMs)) accepted += 1
        nowMs += afterMs
        admitted += queue.admit(nowMs).length
        expect(admitted).toBeLessThanOrEqual(1 + Math.ceil((limits.perS * nowMs) / 1_000))
        expect(queue.size).toBe(accepted - admitted)
        expect(queue.size).toBeLessThanOrEqual(limits.perS * (1 + limits.maxWaitS))
      }
      for (; queue.size > 0; nowMs += 100) admitted += queue.admit(nowMs).length
      expect(admitted).toBe(accepted)
    }),
  )
})

it('lets networks take turns: one that sends much delays itself', () => {
  const queue = new FairQueue<string>(limits, 0)
  for (let item = 0; item < 20; item++) queue.offer(`flood-${item}`, 'flood', 0)
  queue.offer('honest-0', 'honest', 0)
  queue.offer('honest-1', 'honest', 0)
  const admitted = [0, 100, 200, 300, 400].flatMap((nowMs) => queue.admit(nowMs))
  expect(admitted).toEqual(['flood-0', 'honest-0', 'flood-1', 'honest-1', 'flood-2'])
})

it('admits fewer where it is asked seldom, as by a client that is busy with those before', () => {
  const queue = new FairQueue<number>({ perS: 100, maxWaitS: 2 }, 0)
  for (let item = 0; item < 300; item++) queue.offer(item, 'a', 0)
  expect([0, 1_000, 2_000].map((nowMs) => queue.admit(nowMs).length)).toEqual([6, 6, 6])
  const often = Array.from({ length: 50 }, (_, step) => queue.admit(2_000 + 20 * (step + 1)).length)
  expect(often.reduce((sum, count) => sum + count)).toBe(100)
})

it('passes over those that are gone, and they take no place', () => {
  const queue = new FairQueue<number>(limits, 0)
  for (let item = 0; item < 10; item++) queue.offer(item, 'a', 0)
  expect(queue.admit(0, (item) => item < 7)).toEqual([7])
  expect(queue.size).toBe(2)
})

it('refuses what would wait too long', () => {
  const queue = new FairQueue<number>(limits, 0)
  const taken = Array.from({ length: 40 }, (_, item) => queue.offer(item, 'a', 0))
  expect(taken.filter(Boolean)).toHaveLength(30)
})

it('refuses where those before waited too long, until the queue is empty', () => {
  const queue = new FairQueue<number>({ perS: 100, maxWaitS: 0.1 }, 0)
  for (let item = 0; item < 20; item++) queue.offer(item, 'a', 0)
  // One that is so busy that it admits seldom.
  for (const nowMs of [0, 600, 1_200]) queue.admit(nowMs)
  expect(queue.size).toBe(2)
  expect(queue.offer(20, 'a', 1_200)).toBe(false)
  queue.admit(1_800)
  expect(queue.size).toBe(0)
  expect(queue.offer(21, 'a', 1_800)).toBe(true)
})
