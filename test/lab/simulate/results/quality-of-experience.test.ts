import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Reader } from '../../../../core/policy/serving/reader.ts'
import { Lateness } from '../../../../lab/simulate/results/quality-of-experience.ts'

const requestedMs = 5_000
/** Of an answer whose tokens come at these times, ascending, in ms after the request. */
function experience(tokensPerS: number, timesMs: readonly number[]): number {
  const reader = new Reader(tokensPerS, timesMs.length, requestedMs)
  const lateness = new Lateness(tokensPerS, requestedMs)
  for (const afterMs of timesMs) {
    const atMs = requestedMs + afterMs
    lateness.read(1, Math.max(atMs, reader.drainedMs ?? atMs))
    reader.deliver(1, atMs)
  }
  return lateness.qualityOfExperience
}
const ascending = fc
  .array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 30 })
  .map((times) => times.sort((a, b) => a - b))

describe('the quality of experience', () => {
  it('is 1 where nothing comes late, and 0 where nothing comes', () => {
    expect(experience(10, [1_000, 1_100, 1_200])).toBe(1)
    expect(experience(10, [200, 200, 200])).toBe(1)
    expect(experience(10, [])).toBe(0)
  })

  it('falls with the wait for the first token, less so for long answers', () => {
    // Areas of 10 tokens at 10/s until the last is read: 5.5 expected, 2 s × 10 tokens more on the way.
    expect(experience(10, Array(10).fill(3_000))).toBeCloseTo(5.5 / 25.5)
    expect(experience(10, Array(100).fill(3_000))).toBeCloseTo(505 / 705)
  })

  it('falls with stalls: tokens after one are as late as it was long', () => {
    const smooth = Array.from({ length: 10 }, (_, i) => 1_000 + 100 * i)
    const stalled = smooth.map((atMs, i) => (i < 5 ? atMs : atMs + 1_000))
    expect(experience(10, stalled)).toBeCloseTo(1 - 5 / (10 * 1 + 5.5))
  })

  it('is between 0 and 1, and later tokens never raise it', () => {
    fc.assert(
      fc.property(ascending, fc.integer({ min: 1, max: 50 }), fc.nat({ max: 5_000 }), (times, tokensPerS, delayMs) => {
        const own = experience(tokensPerS, times)
        expect(own).toBeGreaterThan(0)
        expect(own).toBeLessThanOrEqual(1)
        const later = times.map((atMs) => atMs + delayMs)
        expect(experience(tokensPerS, later)).toBeLessThanOrEqual(own + 1e-12)
      }),
    )
  })

  it('does not depend on how far tokens are sent ahead of the reader', () => {
    fc.assert(
      fc.property(ascending, fc.integer({ min: 1, max: 50 }), (times, tokensPerS) => {
        const reader = new Reader(tokensPerS, times.length, 0)
        // Each token just when the reader gets to it.
        const paced = times.map((atMs) => {
          const readMs = Math.max(atMs, reader.drainedMs ?? atMs)
          reader.deliver(1, atMs)
          return readMs
        })
        expect(experience(tokensPerS, paced)).toBeCloseTo(experience(tokensPerS, times), 9)
      }),
    )
  })
})
