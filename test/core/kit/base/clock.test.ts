import { expect, it } from 'vitest'
import { systemClock } from '../../../../core/kit/base/clock.ts'

it('sleeps for longer than a timer of Node can last', async () => {
  const stop = new AbortController()
  let hasEnded = false
  const month = systemClock.sleep(31 * 86_400_000, stop.signal).finally(() => {
    hasEnded = true
  })
  await systemClock.sleep(10)
  expect(hasEnded).toBe(false)
  stop.abort()
  await expect(month).rejects.toThrow('aborted')
})
