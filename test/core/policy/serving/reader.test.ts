import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Reader, unreadOf } from '../../../../core/policy/serving/reader.ts'

const anyRate = fc.double({ min: 0.1, max: 1_000, noNaN: true })
/** Gaps in ms between deliveries, and the tokens of each. */
const anyDeliveries = fc.array(fc.tuple(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 1, max: 20 })), { minLength: 1 })

/** When each token is read: at once if the reader waits for it, else 1/rate after the token before. */
function readingTimes(rate: number, sentMs: readonly number[]): number[] {
  const times: number[] = []
  for (const atMs of sentMs) times.push(Math.max(atMs, (times.at(-1) ?? Number.NEGATIVE_INFINITY) + 1_000 / rate))
  return times
}

describe('a reader', () => {
  it('has nothing unread before the first token, and begins to read with it', () => {
    const reader = new Reader(5, 100, 0)
    expect(unreadOf(reader, 3_000)).toBe(0)
    reader.deliver(1, 3_000)
    expect(reader).toMatchObject({ requestedMs: 0, firstTokenMs: 3_000, sent: 1, stalls: 0, stalledMs: 0 })
    expect(unreadOf(reader, 3_000)).toBe(1)
    expect(unreadOf(reader, 3_100)).toBe(0.5)
    expect(unreadOf(reader, 9_000)).toBe(0)
  })

  it('stalls from when the buffer is empty until the next token', () => {
    const reader = new Reader(10, 100, 0)
    reader.deliver(3, 1_000)
    reader.deliver(1, 1_800)
    expect(reader).toMatchObject({ stalls: 1, stalledMs: 500, drainedMs: 1_900 })
  })

  it('does not stall after the last token', () => {
    const reader = new Reader(10, 100, 0)
    reader.deliver(5, 0)
    expect(unreadOf(reader, 60_000)).toBe(0)
    expect(reader.stalledMs).toBe(0)
  })

  it('stalls exactly as long as a reader that is followed token by token', () => {
    fc.assert(
      fc.property(anyRate, anyDeliveries, (rate, deliveries) => {
        const reader = new Reader(rate, 1_000, 0)
        const sentMs: number[] = []
        let nowMs = 0
        for (const [gapMs, count] of deliveries) {
          nowMs += gapMs
          reader.deliver(count, nowMs)
          for (let i = 0; i < count; i += 1) sentMs.push(nowMs)
        }
        const times = readingTimes(rate, sentMs)
        const stalls = sentMs.map((atMs, j) => (j === 0 ? 0 : Math.max(0, atMs - (times[j - 1]! + 1_000 / rate))))
        expect(reader.stalledMs).toBeCloseTo(
          stalls.reduce((sum, ms) => sum + ms, 0),
          3,
        )
        expect(reader.drainedMs).toBeCloseTo(times.at(-1)! + 1_000 / rate, 3)
        // A token is unread until its time; the one that is being read counts in part.
        const whole = times.filter((atMs) => atMs > nowMs).length
        expect(unreadOf(reader, nowMs)).toBeGreaterThanOrEqual(whole - 1e-6)
        expect(unreadOf(reader, nowMs)).toBeLessThanOrEqual(whole + 1 + 1e-6)
      }),
    )
  })

  it('keeps what is unread, and how long it has waited, when its rate changes', () => {
    const reader = new Reader(10, 100, 0)
    reader.deliver(20, 0)
    reader.setRate(5, 1_000)
    expect(unreadOf(reader, 1_000)).toBe(10)
    expect(unreadOf(reader, 2_000)).toBe(5)
    reader.setRate(50, 4_000)
    expect(reader.drainedMs).toBe(3_000)
  })

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('refuses the rate %d', (rate) => {
    expect(() => new Reader(rate, 100, 0)).toThrow(RangeError)
    expect(() => new Reader(5, 100, 0).setRate(rate, 0)).toThrow(/rate must be a positive number/)
  })
})
