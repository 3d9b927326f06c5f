/** Limits of an API key; null: no limit. */
export interface Quota {
  readonly requestsPerMinute: number | null
  readonly jobsPerDay: number | null
}

export const noQuota: Quota = { requestsPerMinute: null, jobsPerDay: null }

/** Jobs submitted on one day. */
export interface DayCount {
  /** UTC, YYYY-MM-DD. */
  readonly day: string
  readonly jobs: number
}

export type Judgement<Next> =
  | { readonly kind: 'granted'; readonly next: Next }
  | { readonly kind: 'refused'; readonly retryAfterMs: number }

const minuteMs = 60_000

/**
 * Whether more requests are allowed, all or none: the generic cell rate algorithm (ITU-T I.371, virtual scheduling). A minute's worth may
 * come at once, then one request per interval of the rate.
 * @param dueMs when all earlier requests would have been due at an even rate, monotonic ms; −∞ before the first
 * @param perMinute integer >= 1
 * @param count more than `perMinute` are never granted
 * @returns `next`: the `dueMs` after these requests
 */
export function judgeRequest(dueMs: number, perMinute: number, nowMs: number, count = 1): Judgement<number> {
  const next = Math.max(dueMs, nowMs) + (count * minuteMs) / perMinute
  const aheadMs = next - nowMs - minuteMs
  // Less than a millisecond is a rounding error.
  return aheadMs < 1 ? { kind: 'granted', next } : { kind: 'refused', retryAfterMs: Math.ceil(aheadMs) }
}

/** Requests that `judgeRequest` would grant at once. */
export function requestsLeft(dueMs: number, perMinute: number, nowMs: number): number {
  const aheadMs = Math.max(0, dueMs - nowMs)
  return Math.max(0, Math.ceil(((minuteMs - aheadMs + 1) * perMinute) / minuteMs) - 1)
}

/**
 * Whether this many new jobs are allowed today: all or none.
 * @param utcMs by the bridge's clock; a day is a day of UTC
 * @returns `next`: the count with these jobs
 */
export function judgeJobs(used: DayCount | undefined, perDay: number, wanted: number, utcMs: number): Judgement<DayCount> {
  const next = addJobs(used, wanted, utcMs)
  return next.jobs <= perDay ? { kind: 'granted', next } : { kind: 'refused', retryAfterMs: msToNextDay(utcMs) }
}

export function addJobs(used: DayCount | undefined, count: number, utcMs: number): DayCount {
  const today = dayOf(utcMs)
  return { day: today, jobs: jobsOn(used, today) + count }
}

export const jobsLeft = (used: DayCount | undefined, perDay: number, utcMs: number): number =>
  Math.max(0, perDay - jobsOn(used, dayOf(utcMs)))

export const dayOf = (utcMs: number): string => new Date(utcMs).toISOString().slice(0, 10)

const dayMs = 86_400_000
const msToNextDay = (utcMs: number): number => dayMs - (((utcMs % dayMs) + dayMs) % dayMs)
const jobsOn = (used: DayCount | undefined, day: string): number => (used?.day === day ? used.jobs : 0)
