import { expect, it } from 'vitest'
import { Progress } from '../../../../core/kit/base/progress.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

it('names loops whose progress is overdue, each once, until they make progress or rest', async () => {
  const clock = fakeClock()
  const progress = new Progress(clock)
  const [first, second, other] = ['link', 'link', 'steps'].map((name) => progress.expect(name))
  first?.within(100)
  second?.within(100)
  other?.within(500)
  await clock.advance(100)
  expect(progress.stalled).toEqual([])
  await clock.advance(1)
  expect(progress.stalled).toEqual(['link'])
  first?.within(1_000)
  expect(progress.stalled).toEqual(['link'])
  second?.rest()
  expect(progress.stalled).toEqual([])
  await clock.advance(500)
  expect(progress.stalled).toEqual(['steps'])
})

it('expects the end of each piece of work, however it ends', async () => {
  const clock = fakeClock()
  const progress = new Progress(clock)
  let end = () => {}
  const stuck = progress.during('inference', 100, () => new Promise<void>((resolve) => (end = resolve)))
  await expect(progress.during('inference', 50, async () => Promise.reject(new Error('no memory')))).rejects.toThrow('no memory')
  await clock.advance(60)
  expect(progress.stalled).toEqual([])
  await clock.advance(60)
  expect(progress.stalled).toEqual(['inference'])
  end()
  await stuck
  expect(progress.stalled).toEqual([])
})
