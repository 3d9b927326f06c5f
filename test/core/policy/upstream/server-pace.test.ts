import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ServerPace } from '../../../../core/policy/upstream/server-pace.ts'

describe('what a server has written when its reader leaves', () => {
  const complete = { tokens: 40, events: 10, spanMs: 200, sinceMs: 0 }
  const none = { tokens: 0, events: 0, spanMs: 0, sinceMs: 0 }
  const known = (roundTripMs: number) => {
    const pace = new ServerPace()
    pace.responded(roundTripMs)
    for (let answers = 0; answers < 3; answers++) pace.ended(complete)
    return pace
  }

  it('is unknown before three of its answers have come in full', () => {
    const pace = new ServerPace()
    pace.responded(20)
    for (let answers = 0; answers < 3; answers++) {
      expect(pace.unseen(none)).toBeUndefined()
      expect(pace.unseen({ tokens: 400, events: 100, spanMs: 2_000, sinceMs: 0 })).toBeUndefined()
      pace.ended(complete)
    }
    // Those tell how fast it begins.
    expect(pace.unseen(none)).toBe(Math.ceil((40 / 200) * 20 + 1))
  })

  it('follows the pace of the answer itself, unless it came in a burst', () => {
    expect(known(20).unseen({ tokens: 20, events: 5, spanMs: 100, sinceMs: 5 })).toBe(Math.ceil((20 / 100) * 25 + 4))
    expect(known(20).unseen({ tokens: 40, events: 20, spanMs: 99, sinceMs: 5 })).toBe(Math.ceil((40 / 200) * 25 + 2))
  })

  it('is unknown of a server that has ever sent more than it was asked for', () => {
    const pace = known(20)
    pace.exceeded()
    pace.ended(complete)
    expect(pace.unseen(complete)).toBeUndefined()
  })

  it('is never more than is charged, and that is at most an event and two round trips more', () => {
    const server = fc.record({
      gapMs: fc.integer({ min: 1, max: 200 }),
      perEvent: fc.integer({ min: 1, max: 40 }),
      wayMs: fc.integer({ min: 1, max: 300 }),
      readMs: fc.integer({ min: 0, max: 5_000 }),
    })
    fc.assert(
      fc.property(server, ({ gapMs, perEvent, wayMs, readMs }) => {
        const pace = known(2 * wayMs)
        // The first event is written at 0, and read after the way. The reader leaves after another `readMs`.
        const events = 1 + Math.floor(readMs / gapMs)
        const spanMs = (events - 1) * gapMs
        const tokens = events * perEvent
        // Its pace until then is that of its earlier answers.
        if (spanMs < 100) return
        const counted = tokens + pace.unseen({ tokens, events, spanMs, sinceMs: readMs - spanMs })!
        const written = perEvent * (1 + Math.floor((readMs + 2 * wayMs) / gapMs))
        expect(counted).toBeGreaterThanOrEqual(Math.min(written, 2 * tokens))
        if (spanMs >= 2 * wayMs) {
          expect(counted).toBeGreaterThanOrEqual(written)
          expect(counted).toBeLessThanOrEqual(tokens + 1 + 2 * perEvent + Math.ceil((2 * perEvent * (2 * wayMs + gapMs)) / gapMs))
        }
      }),
      { numRuns: 500 },
    )
  })
})
