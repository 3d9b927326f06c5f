import { expect, it } from 'vitest'
import { AnswerQueue } from '../../../../core/policy/serving/answer-queue.ts'

it('refuses an answer beyond its limit, and says when those before it will have begun', () => {
  const queue = new AnswerQueue(10)
  for (let answer = 0; answer < 10; answer++) queue.enter('a', 0)
  expect(queue.enter('a', 0)).toEqual({ kind: 'refused', full: { waiting: 10, retryAfterMs: 1_000 } })
  for (const atMs of [500, 1_000]) queue.leave('a', atMs)
  expect(queue.length).toBe(8)
  for (let answer = 0; answer < 2; answer++) queue.enter('a', 1_000)
  expect(queue.enter('a', 1_000)).toEqual({ kind: 'refused', full: { waiting: 10, retryAfterMs: 5_000 } })
})

it('asks for at most a minute of patience, however slowly it moves', () => {
  const queue = new AnswerQueue(2)
  queue.enter('a', 0)
  queue.leave('a', 600_000)
  queue.enter('a', 600_000)
  queue.enter('a', 600_000)
  expect(queue.enter('a', 600_000)).toMatchObject({ full: { retryAfterMs: 60_000 } })
})

it('a full queue has a place for a client with less than its share, at the expense of the client with the most', () => {
  const queue = new AnswerQueue(8)
  for (let answer = 0; answer < 8; answer++) expect(queue.enter('flood', 0)).toEqual({ kind: 'entered' })
  for (let answer = 0; answer < 4; answer++)
    expect(queue.enter('honest', 0)).toMatchObject({ kind: 'displaced', client: 'flood' })
  expect(queue.enter('honest', 0).kind).toBe('refused')
  expect(queue.enter('flood', 0).kind).toBe('refused')
  expect(queue.enter('third', 0)).toMatchObject({ kind: 'displaced', full: { waiting: 8 } })
  expect(queue.length).toBe(8)
})
