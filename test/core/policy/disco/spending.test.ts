import { array, assert, integer, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { laterTime, nothingSpent, type SpendingTime, SpendingWindow } from '../../../../core/policy/disco/spending.ts'

const windowMs = 64_000
const dollars = (amount: number) => ({ ...nothingSpent, dollars: amount })

describe('spending in a sliding window', () => {
  it('is the sum of what each account has spent', () => {
    const window = new SpendingWindow<'a' | 'b'>(windowMs)
    window.add('a', dollars(1), 0)
    window.add('a', dollars(2), 30_000)
    window.add('b', { ...dollars(4), tokens: 7 }, 30_000)
    expect(window.total('a', 30_000)).toEqual(dollars(3))
    expect(window.total('b', 30_000)).toMatchObject({ dollars: 4, tokens: 7 })
  })

  it('never forgets early, nor later than one bucket after the window', () => {
    const spends = array(record({ gapMs: integer({ min: 0, max: 20_000 }), amount: integer({ min: 1, max: 9 }) }), {
      maxLength: 60,
    })
    assert(
      property(spends, integer({ min: 0, max: 100_000 }), (list, laterMs) => {
        const window = new SpendingWindow<'a'>(windowMs)
        let nowMs = 0
        const spent = list.map(({ gapMs, amount }) => {
          nowMs += gapMs
          window.add('a', dollars(amount), nowMs)
          return { atMs: nowMs, amount }
        })
        nowMs += laterMs
        const since = (ms: number) => spent.reduce((sum, { atMs, amount }) => sum + (nowMs - atMs < ms ? amount : 0), 0)
        const total = window.total('a', nowMs).dollars
        expect(total).toBeGreaterThanOrEqual(since(windowMs))
        expect(total).toBeLessThanOrEqual(since(windowMs + windowMs / 64 + 1))
      }),
    )
  })

  it('tells when a total is small enough', () => {
    const window = new SpendingWindow<'a'>(windowMs)
    window.add('a', dollars(1), 500)
    window.add('a', dollars(2), 10_500)
    for (const [max, left] of [
      [3, 3],
      [2, 2],
      [1, 0],
      [0, 0],
    ] as const) {
      const ms = window.msUntil('a', 'dollars', max, 20_000)
      const copy = new SpendingWindow<'a'>(windowMs)
      copy.add('a', dollars(1), 500)
      copy.add('a', dollars(2), 10_500)
      if (ms > 0) expect(copy.total('a', 20_000 + ms - 1).dollars).toBeGreaterThan(max)
      expect(copy.total('a', 20_000 + ms).dollars).toBe(left)
    }
  })
})

describe('the time of spending', () => {
  const dayMs = 24 * 3_600_000
  const wallMs = Date.UTC(2026, 10, 1)
  const start: SpendingTime = { ms: 1_000, wallMs }

  it('counts the time that the device was off', () => {
    expect(laterTime(start, 0, wallMs + dayMs)).toEqual({ ms: 1_000 + dayMs, wallMs: wallMs + dayMs })
  })

  it('goes on without a time of day, and takes it from the first that is set', () => {
    const unset = laterTime({ ms: 0, wallMs: undefined }, 5_000, undefined)
    expect(unset).toEqual({ ms: 5_000, wallMs: undefined })
    expect(laterTime(unset, 10, wallMs)).toEqual({ ms: 5_010, wallMs })
    expect(laterTime(start, 2_000, undefined)).toEqual({ ms: 3_000, wallMs: wallMs + 2_000 })
  })

  it('never goes back, and takes a clock that jumps to and fro for one jump', () => {
    let time = start
    for (let n = 0; n < 10; n++) {
      time = laterTime(time, 1_000, wallMs - 5 * dayMs)
      time = laterTime(time, 1_000, wallMs + dayMs)
    }
    expect(time.ms).toBe(1_000 + dayMs + 18_000)
  })
})
