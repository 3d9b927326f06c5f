import { expect, it } from 'vitest'
import { AnswersInProgress } from '../../../../core/answer/api/answers-in-progress.ts'

it('lets answers in progress end before it is drained, and refuses new ones', async () => {
  const answers = new AnswersInProgress('this agent')
  let end = () => {}
  const first = answers.run(
    () =>
      new Promise<string>((resolve) => {
        end = () => resolve('an answer')
      }),
  )
  const events: string[] = []
  const drained = answers.drain().then(() => events.push('drained'))
  const again = answers.drain().then(() => events.push('drained again'))
  await expect(answers.run(async () => 'another')).rejects.toMatchObject({
    code: 'SESSION_REFUSED',
    message: 'this agent is shutting down and begins no new answers',
    retryAfterMs: 5_000,
  })
  expect(events).toEqual([])
  end()
  await expect(first).resolves.toBe('an answer')
  await Promise.all([drained, again])
  expect(answers.count).toBe(0)
})

it('is drained at once without answers, also after one that failed', async () => {
  const answers = new AnswersInProgress('this bridge')
  await expect(answers.run(() => Promise.reject(new Error('no memory')))).rejects.toThrow('no memory')
  await answers.drain()
  expect(answers.problem).toBeDefined()
})
