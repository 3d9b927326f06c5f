import { expect, it } from 'vitest'
import { repeatEvery } from '../../../../core/kit/base/repeat.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

it('runs work at each interval, the first time after one, and never after stop', async () => {
  const clock = fakeClock()
  const timesMs: number[] = []
  const stop = repeatEvery(clock, 100, () => void timesMs.push(clock.nowMs()))
  await clock.advance(350)
  expect(timesMs).toEqual([100, 200, 300])
  await stop()
  await clock.advance(1_000)
  expect(timesMs).toHaveLength(3)
})

it('waits for the work under way when it is stopped', async () => {
  const clock = fakeClock()
  let finish = () => {}
  let hasStopped = false
  const stop = repeatEvery(clock, 100, () => new Promise<void>((resolve) => (finish = resolve)))
  await clock.advance(100)
  const stopped = stop().then(() => {
    hasStopped = true
  })
  await new Promise((turn) => setImmediate(turn))
  expect(hasStopped).toBe(false)
  finish()
  await stopped
  expect(hasStopped).toBe(true)
})
