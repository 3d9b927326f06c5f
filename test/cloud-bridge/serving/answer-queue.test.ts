import { expect, it } from 'vitest'
import { AnswerQueue } from '../../../cloud-bridge/serving/answer-queue.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { fakeClock } from '../../support/fake-clock.ts'

function refusal(queue: AnswerQueue): BrimError | undefined {
  try {
    queue.enter(1_000, 'a')
    return undefined
  } catch (error) {
    if (error instanceof BrimError) return error
    throw error
  }
}

it('refuses an answer beyond its limit, and says when those before it will have begun', async () => {
  const clock = fakeClock()
  const queue = new AnswerQueue(10, clock)
  for (let stream = 0; stream < 10; stream++) queue.enter(stream, 'a')
  expect(refusal(queue)).toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 1_000 })
  for (const stream of [3, 1]) {
    await clock.advance(500)
    queue.leave(stream)
    queue.leave(stream)
  }
  expect(queue.length).toBe(8)
  queue.enter(10, 'a')
  queue.enter(11, 'a')
  expect(refusal(queue)).toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 5_000 })
})

it('asks for at most a minute of patience, however slowly it moves', async () => {
  const clock = fakeClock()
  const queue = new AnswerQueue(2, clock)
  queue.enter(1, 'a')
  await clock.advance(600_000)
  queue.leave(1)
  queue.enter(2, 'a')
  queue.enter(3, 'a')
  expect(refusal(queue)?.retryAfterMs).toBe(60_000)
})

it('a full queue has a place for a client with less than its share, at the expense of the client with the most', () => {
  const queue = new AnswerQueue(8, fakeClock())
  for (let stream = 0; stream < 8; stream++) expect(queue.enter(stream, 'flood')).toBeUndefined()
  const displaced = Array.from({ length: 4 }, (_, at) => queue.enter(100 + at, 'honest')?.displaced)
  expect(displaced).toEqual([7, 6, 5, 4])
  expect(() => queue.enter(104, 'honest')).toThrow(BrimError)
  expect(() => queue.enter(8, 'flood')).toThrow(BrimError)
  expect(queue.enter(200, 'third')).toMatchObject({ displaced: expect.any(Number), error: { code: 'QUEUE_FULL' } })
  expect(queue.length).toBe(8)
})
