/** What a key may ask for; null: as much as it likes. */
export interface Quota {
  readonly requestsPerMinute: number | null
  readonly jobsPerDay: number | null
}

export const noQuota: Quota = { requestsPerMinute: null, jobsPerDay: null }

/** Jobs that were taken in on a day. */
export interface DayCount {
  /** UTC, YYYY-MM-DD. */
  readonly day: string
  readonly jobs: number
}

export type Granted<T> =
  | { readonly kind: 'granted'; readonly next: T }
  | { readonly kind: 'refused'; readonly retryAfterMs: number }

const minuteMs = 60_000

/**
 * Whether one more request may be made: the generic cell rate algorithm (ITU-T I.371, virtual scheduling). A minute's worth
 * may come at once, then one as often as the rate allows.
 * @param dueMs when all requests so far would have been due at an even rate, monotonic ms; −∞ where there were none
 * @param perMinute integer >= 1
 * @returns the next `dueMs`
 */
export function judgeRequest(dueMs: number, perMinute: number, nowMs: number): Granted<number> {
  const next = Math.max(dueMs, nowMs) + minuteMs / perMinute
  const aheadMs = next - nowMs - minuteMs
  // A part of a millisecond is rounding.
  return aheadMs < 1 ? { kind: 'granted', next } : { kind: 'refused', retryAfterMs: Math.ceil(aheadMs) }
}

/** How many requests `judgeRequest` would grant at once. */
export function requestsLeft(dueMs: number, perMinute: number, nowMs: number): number {
  const aheadMs = Math.max(0, dueMs - nowMs)
  return Math.max(0, Math.ceil(((minuteMs - aheadMs + 1) * perMinute) / minuteMs) - 1)
}

/**
 * Whether so many new jobs may be taken in today: all or none.
 * @param utcMs of the bridge's own clock; a day is one of UTC
 */
export function judgeJobs(used: DayCount | undefined, perDay: number, wanted: number, utcMs: number): Granted<DayCount> {
  const today = dayOf(utcMs)
  const jobs = jobsOn(used, today) + wanted
  return jobs <= perDay ? { kind: 'granted', next: { day: today, jobs } } : { kind: 'refused', retryAfterMs: msToNextDay(utcMs) }
}

export const jobsLeft = (used: DayCount | undefined, perDay: number, utcMs: number): number =>
  Math.max(0, perDay - jobsOn(used, dayOf(utcMs)))

export const dayOf = (utcMs: number): string => new Date(utcMs).toISOString().slice(0, 10)

const dayMs = 86_400_000
const msToNextDay = (utcMs: number): number => dayMs - (((utcMs % dayMs) + dayMs) % dayMs)
const jobsOn = (used: DayCount | undefined, day: string): number => (used?.day === day ? used.jobs : 0)
