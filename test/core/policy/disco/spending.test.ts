import fc, { array, assert, integer, property, record } from 'fast-check'
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
  const start: SpendingTime = { ms: 1_000, wallMs, boot: 'a', upMs: 50_000, isOffCounted: true }

  it('goes on as the machine is up, whatever its time of day', () => {
    for (const wall of [undefined, wallMs - 300 * dayMs, wallMs + 2_000, wallMs + 300 * dayMs])
      expect(laterTime(start, { wallMs: wall, boot: 'a', upMs: 52_000 })).toEqual({
        ...start,
        ms: 3_000,
        wallMs: wallMs + 2_000,
        upMs: 52_000,
      })
  })

  it('counts the time that the machine was off, once it is known', () => {
    const ahead = { wallMs: wallMs + dayMs, boot: 'b', upMs: 10 }
    expect(laterTime(start, ahead)).toEqual({ ms: 1_000 + dayMs, ...ahead, isOffCounted: true })
    // A clock without battery is set from the network.
    const unset = laterTime(start, { wallMs: undefined, boot: 'b', upMs: 10 })
    expect(unset).toEqual({ ms: 1_000, wallMs, boot: 'b', upMs: 10, isOffCounted: false })
    expect(laterTime(unset, { wallMs: wallMs + dayMs, boot: 'b', upMs: 70 })).toMatchObject({ ms: 1_000 + dayMs })
  })

  it('takes the time of day from the first that is set', () => {
    const never: SpendingTime = { ms: 0, wallMs: undefined, boot: '', upMs: 0, isOffCounted: false }
    const unset = laterTime(never, { wallMs: undefined, boot: 'a', upMs: 5_000 })
    expect(unset).toEqual({ ms: 0, wallMs: undefined, boot: 'a', upMs: 5_000, isOffCounted: false })
    const set = laterTime(unset, { wallMs, boot: 'a', upMs: 5_010 })
    expect(set).toEqual({ ms: 10, wallMs, boot: 'a', upMs: 5_010, isOffCounted: true })
  })

  it('is never ahead of the time that has passed, but for one jump at each start of the machine with a wrong clock', () => {
    const step = fc.record({
      upMs: fc.oneof(fc.nat(1_000), fc.nat(dayMs)),
      /** The time of day that is shown is wrong by so much; absent: it is not set. */
      errorMs: fc.option(fc.integer({ min: -40 * dayMs, max: 40 * dayMs }), { nil: undefined }),
      offMs: fc.option(fc.nat(3 * dayMs), { nil: undefined }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let [trueMs, upMs, boot, time] = [0, 50_000, 0, { ...start, boot: '0' }]
        let wrongStartsMs = 0
        for (const { upMs: more, errorMs, offMs } of steps) {
          trueMs += more
          upMs += more
          if (offMs !== undefined) {
            trueMs += offMs
            upMs = 10
            boot += 1
          }
          const before = time
          const shown = errorMs === undefined ? undefined : wallMs + trueMs + errorMs
          time = laterTime(time, { wallMs: shown, boot: `${boot}`, upMs })
          expect(time.ms).toBeGreaterThanOrEqual(before.ms)
          if (time.isOffCounted && !(before.isOffCounted && before.boot === time.boot)) wrongStartsMs += Math.max(0, errorMs ?? 0)
          expect(time.ms - start.ms).toBeLessThanOrEqual(trueMs + wrongStartsMs)
        }
      }),
    )
  })
})
