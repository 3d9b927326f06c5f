import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ServerPace } from '../../../../core/policy/upstream/server-pace.ts'

describe('what a server has written when its reader leaves', () => {
  it('is unknown before anything has come from it', () => {
    const pace = new ServerPace()
    expect(pace.unseen({ tokens: 0, events: 0, spanMs: 0, sinceMs: 0 })).toBeUndefined()
    pace.responded(20)
    expect(pace.unseen({ tokens: 0, events: 0, spanMs: 0, sinceMs: 0 })).toBeUndefined()
    expect(pace.unseen({ tokens: 4, events: 1, spanMs: 0, sinceMs: 5 })).toBe(Math.ceil((4 / 20) * 25 + 4))
    // Its earlier answers tell how fast it begins.
    expect(pace.unseen({ tokens: 0, events: 0, spanMs: 0, sinceMs: 0 })).toBe(5)
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
        const pace = new ServerPace()
        pace.responded(2 * wayMs)
        // The first event is written at 0, and read after the way. The reader leaves after another `readMs`.
        const events = 1 + Math.floor(readMs / gapMs)
        const spanMs = (events - 1) * gapMs
        const tokens = events * perEvent
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
