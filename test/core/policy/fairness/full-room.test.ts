import fc from 'fast-check'
import { expect, it } from 'vitest'
import { clientToDisplace } from '../../../../core/policy/fairness/full-room.ts'

const size = 12
const clients = ['a', 'b', 'c']

it('gives each of k clients a k-th of the room, whatever the others do', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...clients), { maxLength: 80 }), fc.constantFrom(...clients), (arrivals, late) => {
      const waiting = new Map<string, number>()
      const offer = (client: string): boolean => {
        const total = [...waiting.values()].reduce((sum, count) => sum + count, 0)
        const loser = total < size ? undefined : clientToDisplace(waiting, client)
        if (total >= size && loser === undefined) return false
        if (loser !== undefined) waiting.set(loser, waiting.get(loser)! - 1)
        waiting.set(client, (waiting.get(client) ?? 0) + 1)
        return true
      }
      for (const client of arrivals) offer(client)
      while ((waiting.get(late) ?? 0) < size / clients.length) expect(offer(late)).toBe(true)
      expect([...waiting.values()].reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(size)
    }),
  )
})

it('leaves one client alone the whole room', () => expect(clientToDisplace(new Map([['a', size]]), 'a')).toBeUndefined())
