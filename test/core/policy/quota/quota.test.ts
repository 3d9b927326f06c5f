import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type DayCount, dayOf, jobsLeft, judgeJobs, judgeRequest, requestsLeft } from '../../../../core/policy/quota/quota.ts'

const minuteMs = 60_000
const dayMs = 86_400_000
const perMinute = fc.integer({ min: 1, max: 6_000 })
/** Pauses between requests: bursts, regular intervals, long pauses. */
const pauses = fc.array(fc.oneof(fc.constant(0), fc.nat(50), fc.nat(2 * minuteMs)), { minLength: 1, maxLength: 200 })

/** Times at which requests of one key were granted. */
function grantedAt(rate: number, waits: readonly number[]): number[] {
  let [due, now] = [Number.NEGATIVE_INFINITY, 0]
  return waits.flatMap((wait) => {
    now += wait
    const judged = judgeRequest(due, rate, now)
    if (judged.kind === 'refused') return []
    due = judged.next
    return [now]
  })
}

describe('requests per minute', () => {
  it('grants in any interval at most one minute of requests at once, and the rate beyond', () => {
    fc.assert(
      fc.property(perMinute, pauses, (rate, waits) => {
        const granted = grantedAt(rate, waits)
        for (const [first, from] of granted.entries())
          for (const [last, to] of granted.entries()) {
            if (last < first) continue
            // One millisecond for rounding.
            expect(last - first + 1).toBeLessThanOrEqual(rate + ((to - from + 1) * rate) / minuteMs + 1e-6)
          }
      }),
      { examples: [[1, [0, 0, minuteMs]]] },
    )
  })

  it('grants every request of a client that keeps to the rate', () => {
    fc.assert(
      fc.property(perMinute, fc.integer({ min: 1, max: 300 }), (rate, count) => {
        const waits = Array.from({ length: count }, () => Math.ceil(minuteMs / rate))
        expect(grantedAt(rate, waits)).toHaveLength(count)
      }),
    )
  })

  it('reports when the next request is granted, and how many are granted now', () => {
    fc.assert(
      fc.property(perMinute, fc.nat(10 * minuteMs), fc.nat(8_000), (rate, startMs, used) => {
        let due = Number.NEGATIVE_INFINITY
        let granted = 0
        for (let i = 0; i < used; i++) {
          const judged = judgeRequest(due, rate, startMs)
          if (judged.kind === 'refused') break
          due = judged.next
          granted += 1
        }
        expect(granted + requestsLeft(due, rate, startMs)).toBe(rate)
        const next = judgeRequest(due, rate, startMs)
        if (next.kind === 'granted') return
        expect(judgeRequest(due, rate, startMs + next.retryAfterMs).kind).toBe('granted')
        // Two milliseconds, because the last one may be due to rounding.
        expect(judgeRequest(due, rate, startMs + next.retryAfterMs - 2).kind).toBe('refused')
      }),
      { numRuns: 50 },
    )
  })
})

describe('jobs per day', () => {
  const utcMs = fc.integer({ min: 0, max: 4e12 })

  it('grants all of a batch or none of it, and never more than the daily quota', () => {
    const batches = fc.array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.nat(dayMs)), { maxLength: 60 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), utcMs, batches, (perDay, startMs, requests) => {
        let used: DayCount | undefined
        let now = startMs
        const taken = new Map<string, number>()
        for (const [wanted, wait] of requests) {
          now += wait
          const left = jobsLeft(used, perDay, now)
          const judged = judgeJobs(used, perDay, wanted, now)
          expect(judged.kind).toBe(wanted <= left ? 'granted' : 'refused')
          if (judged.kind === 'refused') continue
          used = judged.next
          taken.set(dayOf(now), (taken.get(dayOf(now)) ?? 0) + wanted)
        }
        for (const jobs of taken.values()) expect(jobs).toBeLessThanOrEqual(perDay)
      }),
    )
  })

  it('is restored with the next day, which is the retry time of a refusal', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), utcMs, (perDay, now) => {
        const full: DayCount = { day: dayOf(now), jobs: perDay }
        const judged = judgeJobs(full, perDay, 1, now)
        expect(judged.kind).toBe('refused')
        if (judged.kind === 'granted') return
        expect(judged.retryAfterMs).toBeLessThanOrEqual(dayMs)
        expect(jobsLeft(full, perDay, now + judged.retryAfterMs - 1)).toBe(0)
        expect(jobsLeft(full, perDay, now + judged.retryAfterMs)).toBe(perDay)
      }),
      {
        examples: [
          [1, 0],
          [1, dayMs - 1],
        ],
      },
    )
  })
})

it('several requests at once count as many, and more than a minute holds are never granted', () => {
  const together = judgeRequest(Number.NEGATIVE_INFINITY, 60, 0, 7)
  let due = Number.NEGATIVE_INFINITY
  for (let request = 0; request < 7; request++) {
    const judged = judgeRequest(due, 60, 0)
    if (judged.kind === 'granted') due = judged.next
  }
  expect(together).toEqual({ kind: 'granted', next: due })
  expect(judgeRequest(Number.NEGATIVE_INFINITY, 60, 1e9, 61).kind).toBe('refused')
})
