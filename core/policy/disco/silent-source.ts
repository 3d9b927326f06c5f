/** A source that has begun to send, and what depends on it. Times in ms. */
export interface AwaitedSource {
  /** When it sent its last piece, or else when its reader began to wait for it again. */
  readonly lastMs: number
  /** Longest gap of a source that works. */
  readonly lateMs: number
  /** When the reader will have read all that there is. */
  readonly emptyMs: number
  /** Of the side that would replace it: time to its first token; Infinity: it is busy. */
  readonly startMs: number
}

/**
 * When a source counts as silent: it is later than its gaps ever are, and the reader would soon wait for it. A side that is busy is
 * looked at again after as long.
 */
export function silentAtMs({ lastMs, lateMs, emptyMs, startMs }: AwaitedSource, nowMs: number): number {
  if (startMs === Number.POSITIVE_INFINITY) return nowMs + lateMs
  return Math.max(lastMs + lateMs, emptyMs - startMs)
}

/** Gaps are noticed from here on; shorter ones are worth no second side. */
const minLateMs = 500
/** Part of a server's gaps that are shorter, and how much longer one must be. */
const lateQuantile = 0.99
const lateTimes = 1.5
/** Gaps before which nothing is known of a server. */
const knownGaps = 32

/** The gap after which a server counts as late. @param gapsMs of its pieces, most recent ones first in weight */
export function lateAfterMs(gapsMs: { readonly weight: number; quantile(level: number): number }): number {
  return gapsMs.weight < knownGaps ? minLateMs : Math.max(minLateMs, lateTimes * gapsMs.quantile(lateQuantile))
}
