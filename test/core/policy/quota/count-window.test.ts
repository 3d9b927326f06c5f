import { expect, it } from 'vitest'
import { CountWindow } from '../../../../core/policy/quota/count-window.ts'

const limits = { windowMs: 1_000, max: 2, maxKeys: 3 }

it('is full for a key after its maximum, until the window of its first event ends', () => {
  const events = new CountWindow(limits)
  events.add('a', 0)
  expect(events.isFull('a', 1)).toBe(false)
  events.add('a', 900)
  expect(events.isFull('a', 999)).toBe(true)
  expect(events.isFull('b', 999)).toBe(false)
  expect(events.isFull('a', 1_000)).toBe(false)
  events.add('a', 1_000)
  expect(events.isFull('a', 1_001)).toBe(false)
})

it('forgets all keys when there are too many, and continues to count', () => {
  const events = new CountWindow(limits)
  for (const key of ['a', 'a', 'b', 'c']) events.add(key, 0)
  expect(events.isFull('a', 1)).toBe(true)
  events.add('d', 1)
  expect(events.isFull('a', 1)).toBe(false)
  events.add('d', 1)
  expect(events.isFull('d', 1)).toBe(true)
})
