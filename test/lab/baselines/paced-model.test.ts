import { describe, expect, it } from 'vitest'
import { noModel, type ServedModel } from '../../../cloud-bridge/serving/served-model.ts'
import type { Clock } from '../../../core/kit/base/clock.ts'
import { pacedModel } from '../../../lab/baselines/paced-model.ts'

/** A clock whose sleeps last `lateMs` too long. */
function lateClock(lateMs = 0) {
  let now = 0
  const clock: Clock = {
    nowMs: () => now,
    async sleep(ms) {
      now += ms + lateMs
    },
  }
  return { clock, advance: (ms: number) => (now += ms) }
}

/** One item of so many rows for each number. */
const itemsOf = (...rows: number[]) =>
  rows.map((count) => ({
    sequence: {} as never,
    states: { rows: count, width: 1, half: new Uint16Array(count) },
    select: 'all' as const,
  }))

describe('a paced model', () => {
  const pace = { stepMs: 20, rowMs: 2 }
  const computing = (ms: number, advance: (ms: number) => void): ServedModel => ({
    ...noModel,
    async step(items) {
      advance(ms)
      return items.map(() => ({ kind: 'tokens' }))
    },
  })

  it('takes the time of a step and of its rows, whatever it computes', async () => {
    const { clock, advance } = lateClock()
    const model = pacedModel(computing(7, advance), pace, clock)
    expect(await model.step(itemsOf(1, 4))).toHaveLength(2)
    expect(clock.nowMs()).toBe(30)
    await model.step(itemsOf(1))
    expect(clock.nowMs()).toBe(52)
  })

  it('makes up for late timers, so that many steps take as long as they should', async () => {
    const { clock, advance } = lateClock(1.5)
    const model = pacedModel(computing(1, advance), pace, clock)
    for (let step = 0; step < 100; step++) await model.step(itemsOf(1))
    expect(clock.nowMs()).toBeGreaterThanOrEqual(2_200)
    expect(clock.nowMs()).toBeLessThan(2_202)
  })

  it('waits no longer for a computation that takes longer itself', async () => {
    const { clock, advance } = lateClock()
    await pacedModel(computing(50, advance), pace, clock).step(itemsOf(1))
    expect(clock.nowMs()).toBe(50)
  })

  it('passes errors on at once', async () => {
    const { clock } = lateClock()
    await expect(pacedModel(noModel, pace, clock).step(itemsOf(1))).rejects.toThrow()
    expect(clock.nowMs()).toBe(0)
  })
})
