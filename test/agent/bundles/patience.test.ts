import { expect, it } from 'vitest'
import { Patience } from '../../../agent/bundles/patience.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const broken = new BrimError('BUNDLE_UNAVAILABLE', 'broken')

function download(isConnected: () => boolean) {
  const clock = fakeClock()
  const patience = new Patience({ isConnected, maxSilentMs: 600_000, clock, random: seededRandom(1) })
  const stop = new AbortController()
  /** Waits of the download until it is given up, or until there have been `count`. */
  const waits = async (count: number, between = () => {}) => {
    const lasted: number[] = []
    for (let n = 0; n < count; n++) {
      const startedMs = clock.nowMs()
      let isOver = false
      const wait = patience.wait(broken, stop.signal).finally(() => {
        isOver = true
      })
      wait.catch(() => {})
      for (let s = 0; s < 60 && !isOver; s++) await clock.advance(1_000)
      await wait
      lasted.push(clock.nowMs() - startedMs)
      between()
    }
    return lasted
  }
  return { patience, stop, waits, clock }
}

it('gives a download up after ten minutes without a byte while a bridge is connected', async () => {
  const { waits, clock } = download(() => true)
  await expect(waits(1_000)).rejects.toBe(broken)
  expect(clock.nowMs()).toBeGreaterThan(600_000)
  expect(clock.nowMs()).toBeLessThan(800_000)
})

it('goes on for hours without a link, at most every 30 s', async () => {
  let isConnected = false
  const { waits } = download(() => isConnected)
  const lasted = await waits(1_000)
  expect(Math.max(...lasted)).toBeLessThanOrEqual(31_000)
  expect(lasted.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(3 * 3_600_000)
  // The time without a link does not count once there is one.
  isConnected = true
  expect(await waits(5)).toHaveLength(5)
})

it('begins again with short waits after every byte, and ends when its job is canceled', async () => {
  const { waits, patience, stop } = download(() => true)
  const lasted = await waits(500, () => patience.onBytes())
  expect(Math.max(...lasted)).toBeLessThanOrEqual(1_000)
  stop.abort(new Error('canceled'))
  await expect(waits(1)).rejects.toThrow('canceled')
})
