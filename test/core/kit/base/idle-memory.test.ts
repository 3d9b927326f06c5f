import { expect, it, onTestFinished } from 'vitest'
import { releaseMemoryAtRest } from '../../../../core/kit/base/idle-memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

it('releases memory once after the start and once after answers, never during one', async () => {
  const clock = fakeClock()
  let active = 0
  let busyS = 0
  let releases = 0
  const work = () => ({ active, done: busyS })
  onTestFinished(releaseMemoryAtRest(work, () => releases++, clock))

  await clock.advance(60_000)
  expect(releases).toBe(1)
  active = 1
  busyS = 3
  await clock.advance(60_000)
  expect(releases).toBe(1)
  active = 0
  busyS = 60
  await clock.advance(10_000)
  expect(releases).toBe(1)
  await clock.advance(60_000)
  expect(releases).toBe(2)
})
