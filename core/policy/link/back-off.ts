import type { Random } from '../../base/random.ts'

export interface BackoffLimits {
  readonly baseMs: number
  readonly maxMs: number
}

export const reconnectLimits: BackoffLimits = { baseMs: 1_000, maxMs: 300_000 }

/**
 * How long to wait after `failures` failures in a row (>= 1): "full jitter", uniform between nothing and a bound that
 * doubles, so that a fleet that lost its bridge does not come back in step. M. Brooker, "Exponential Backoff And
 * Jitter", AWS Architecture Blog 2015.
 * @returns ms, 0 <= ms < maxMs
 */
export function fullJitterMs(failures: number, { baseMs, maxMs }: BackoffLimits, random: Random): number {
  return random.next() * Math.min(maxMs, baseMs * 2 ** (failures - 1))
}
