import { expect, it } from 'vitest'
import { AnswerQueue } from '../../../cloud-bridge/serving/answer-queue.ts'
import { BrimError } from '../../../core/base/errors.ts'
import { fakeClock } from '../../support/fake-clock.ts'

function refusal(queue: AnswerQueue): BrimError | undefined {
  try {
    queue.enter(1_000)
    return undefined
  } catch (error) {
    if (error instanceof BrimError) return error
    throw error
  }
}

it('refuses an answer beyond its limit, and says when those before it will have begun', async () => {
  const clock = fakeClock()
  const queue = new AnswerQueue(10, clock)
  for (let stream = 0; stream < 10; stream++) queue.enter(stream)
  expect(refusal(queue)).toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 1_000 })
  for (const stream of [3, 1]) {
    await clock.advance(500)
    queue.leave(stream)
    queue.leave(stream)
  }
  expect(queue.length).toBe(8)
  queue.enter(10)
  queue.enter(11)
  expect(refusal(queue)).toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 5_000 })
})

it('asks for at most a minute of patience, however slowly it moves', async () => {
  const clock = fakeClock()
  const queue = new AnswerQueue(2, clock)
  queue.enter(1)
  await clock.advance(600_000)
  queue.leave(1)
  queue.enter(2)
  queue.enter(3)
  expect(refusal(queue)?.retryAfterMs).toBe(60_000)
})
