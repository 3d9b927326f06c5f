import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { EventQueue } from '../../../../lab/simulate/kernel/event-queue.ts'

describe('EventQueue', () => {
  it('gives events in the order of their times, and those of one time in the order in which they came', () => {
    const queue = new EventQueue()
    const random = seededRandom(7)
    const added = Array.from({ length: 5_000 }, (_, i) => ({ atMs: Math.floor(random.next() * 500), i }))
    const happened: { atMs: number; i: number }[] = []
    for (const event of added) queue.add(event.atMs, () => happened.push(event))
    for (let { nextMs } = queue; nextMs < Number.POSITIVE_INFINITY; { nextMs } = queue) {
      queue.take()!()
      expect(happened.at(-1)!.atMs).toBe(nextMs)
    }
    expect(happened.map(({ i }) => i)).toEqual([...added].sort((a, b) => a.atMs - b.atMs || a.i - b.i).map(({ i }) => i))
  })

  it('forgets canceled events, and no others', () => {
    const queue = new EventQueue()
    const random = seededRandom(3)
    const happened: number[] = []
    const handles = Array.from({ length: 2_000 }, (_, i) => queue.add(random.next(), () => happened.push(i)))
    for (const [i, handle] of handles.entries()) if (i % 3 === 0) queue.cancel(handle)
    drain(queue)
    expect(happened.sort((a, b) => a - b)).toEqual(handles.flatMap((_, i) => (i % 3 === 0 ? [] : [i])))
  })

  it('keeps its order while most of its events are canceled', () => {
    const queue = new EventQueue()
    const random = seededRandom(5)
    const happened: number[] = []
    let timer = 0
    for (let i = 0; i < 20_000; i += 1) {
      const atMs = Math.floor(1e6 * random.next())
      if (i % 10 === 0) queue.add(atMs, () => happened.push(atMs))
      queue.cancel(timer)
      timer = queue.add(atMs, () => happened.push(-1))
    }
    queue.cancel(timer)
    drain(queue)
    expect(happened).toHaveLength(2_000)
    expect(happened).toEqual([...happened].sort((a, b) => a - b))
  })

  it('keeps its order however few events are left of many', () => {
    const random = seededRandom(9)
    for (let left = 1; left <= 12; left += 1) {
      const queue = new EventQueue()
      const happened: number[] = []
      const handles = Array.from({ length: 1_100 }, () => {
        const atMs = random.next()
        return queue.add(atMs, () => happened.push(atMs))
      })
      const kept = new Set(Array.from({ length: left }, () => Math.floor(1_100 * random.next())))
      for (const [i, handle] of handles.entries()) if (!kept.has(i)) queue.cancel(handle)
      drain(queue)
      expect(happened).toHaveLength(kept.size)
      expect(happened).toEqual([...happened].sort((a, b) => a - b))
    }
  })

  it('ignores the handle of an event that has happened, although another one has its slot', () => {
    const queue = new EventQueue()
    const happened: string[] = []
    const first = queue.add(1, () => happened.push('first'))
    queue.take()!()
    queue.add(2, () => happened.push('second'))
    queue.cancel(first)
    drain(queue)
    expect(happened).toEqual(['first', 'second'])
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY])('refuses the time %s', (atMs) => {
    expect(() => new EventQueue().add(atMs, () => {})).toThrow('needs a time')
  })
})

function drain(queue: EventQueue): void {
  for (let action = queue.take(); action; action = queue.take()) action()
}
