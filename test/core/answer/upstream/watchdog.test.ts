import { describe, expect, it } from 'vitest'
import { Watchdog } from '../../../../core/answer/upstream/watchdog.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

describe('a watchdog', () => {
  const begun = () => {
    const clock = fakeClock()
    const watchdog = new Watchdog(clock)
    const allow = (ms: number) => watchdog.allow(ms, () => new Error(`more than ${ms} ms`))
    return { clock, watchdog, allow }
  }

  it('expires after the latest limit, shorter or longer than the one before', async () => {
    for (const [first, second] of [
      [100, 10],
      [10, 100],
    ] as const) {
      const { clock, watchdog, allow } = begun()
      allow(first)
      allow(second)
      await clock.advance(second - 1)
      expect(watchdog.signal.aborted).toBe(false)
      await clock.advance(2)
      expect(watchdog.signal.reason).toEqual(new Error(`more than ${second} ms`))
    }
  })

  it('does not expire while it pauses, nor once it is closed', async () => {
    const { clock, watchdog, allow } = begun()
    allow(10)
    watchdog.pause()
    await clock.advance(1_000)
    allow(10)
    watchdog.close()
    await clock.advance(1_000)
    expect(watchdog.signal.aborted).toBe(false)
  })
})
