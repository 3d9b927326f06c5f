import type { RecentStarts, RolloutState, RolloutTerms } from './rollout.ts'

const minuteMs = 60_000
/** A tenth of these start in one step, which the bridge does in a fraction of a second. */
export const maxRatePerMinute = 10_000
/** A tenth of a minute's starts go in a tenth of a minute, so that a rate of 600 does not start 600 devices at once. */
const parts = 10

/**
 * The present rate. It grows by success, not by time: while devices still download, no more of them start than at first.
 * @param succeeded devices
 * @returns devices per minute
 */
export function rateOf({ ratePerMinute, growth }: Pick<RolloutTerms, 'ratePerMinute' | 'growth'>, succeeded: number): number {
  let rate = ratePerMinute
  let left = succeeded
  while (growth > 1 && left >= rate) {
    left -= rate
    rate *= growth
  }
  return Math.min(rate, maxRatePerMinute)
}

/** The starts that still count against the rate. Later ones than now were counted before the clock was set back. */
export const recentAt = (starts: readonly RecentStarts[], nowMs: number, windowMs = minuteMs): readonly RecentStarts[] =>
  starts.filter(({ atMs }) => atMs > nowMs - windowMs && atMs <= nowMs)

/** How many devices may start now. In any 60 s no more start than the rate, in any 6 s no more than a tenth of it, rounded up. */
export function startsDue({ terms, outcomes, recentStarts }: RolloutState, nowMs: number): number {
  const rate = Math.floor(rateOf(terms, outcomes.succeeded))
  const startedIn = (windowMs: number) => recentAt(recentStarts, nowMs, windowMs).reduce((sum, { devices }) => sum + devices, 0)
  return Math.max(0, Math.min(rate - startedIn(minuteMs), Math.ceil(rate / parts) - startedIn(minuteMs / parts)))
}
