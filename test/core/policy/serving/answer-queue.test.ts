import { expect, it } from 'vitest'
import { AnswerQueue } from '../../../../core/policy/serving/answer-queue.ts'

it('refuses an answer beyond its limit, and says when those before it will have begun', () => {
  const queue = new AnswerQueue(10)
  for (let stream = 0; stream < 10; stream++) queue.enter(stream, 'a', 0)
  expect(queue.enter(1_000, 'a', 0)).toEqual({ kind: 'refused', full: { waiting: 10, retryAfterMs: 1_000 } })
  for (const [at, stream] of [3, 1].entries()) {
    queue.leave(stream, 'a', 500 * (at + 1))
    queue.leave(stream, 'a', 500 * (at + 1))
  }
  expect(queue.length).toBe(8)
  queue.enter(10, 'a', 1_000)
  queue.enter(11, 'a', 1_000)
  expect(queue.enter(1_000, 'a', 1_000)).toEqual({ kind: 'refused', full: { waiting: 10, retryAfterMs: 5_000 } })
})

it('asks for at most a minute of patience, however slowly it moves', () => {
  const queue = new AnswerQueue(2)
  queue.enter(1, 'a', 0)
  queue.leave(1, 'a', 600_000)
  queue.enter(2, 'a', 600_000)
  queue.enter(3, 'a', 600_000)
  expect(queue.enter(1_000, 'a', 600_000)).toMatchObject({ full: { retryAfterMs: 60_000 } })
})

it('a full queue has a place for a client with less than its share, at the expense of the client with the most', () => {
  const queue = new AnswerQueue(8)
  for (let stream = 0; stream < 8; stream++) expect(queue.enter(stream, 'flood', 0)).toEqual({ kind: 'entered' })
  const entries = Array.from({ length: 4 }, (_, at) => queue.enter(100 + at, 'honest', 0))
  expect(entries).toMatchObject([7, 6, 5, 4].map((stream) => ({ kind: 'displaced', stream })))
  expect(queue.enter(104, 'honest', 0).kind).toBe('refused')
  expect(queue.enter(8, 'flood', 0).kind).toBe('refused')
  expect(queue.enter(200, 'third', 0)).toMatchObject({ kind: 'displaced', full: { waiting: 8 } })
  expect(queue.length).toBe(8)
})
