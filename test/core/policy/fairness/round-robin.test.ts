import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RoundRobin } from '../../../../core/policy/fairness/round-robin.ts'

it('while a client waits, no other one is served twice before it', () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.constantFrom('a', 'b', 'c'), { nil: undefined }), { maxLength: 60 }), (steps) => {
      const queue = new RoundRobin<string>()
      const served: string[] = []
      const waiting: Record<string, number[]> = { a: [], b: [], c: [] }
      for (const client of steps) {
        if (client) {
          queue.add(client, client)
          waiting[client]!.push(served.length)
          continue
        }
        const next = queue.next()
        if (next === undefined) continue
        const since = Math.max(waiting[next]!.shift()!, served.lastIndexOf(next) + 1)
        const between = served.slice(since)
        expect(new Set(between).size).toBe(between.length)
        served.push(next)
      }
      expect(queue.size).toBe(Object.values(waiting).flat().length)
    }),
  )
})

it('serves the items of a client in the order that they are added by, and none that is removed', () => {
  const queue = new RoundRobin<number>()
  for (const item of [5, 3, 9]) queue.add('a', item, (other) => other > item)
  queue.remove('a', 5)
  queue.remove('a', 5)
  expect([queue.next(), queue.next(), queue.next(), queue.size]).toEqual([3, 9, undefined, 0])
})
