import type { Random } from '../../core/kit/base/random.ts'

/** The rate of a link, interval by interval; it repeats after the last one. Times count from the link's start. */
export interface RateTrace {
  readonly intervalMs: number
  /** One per interval, > 0. */
  readonly bytesPerS: readonly number[]
}

export interface WalkRange {
  readonly lowBytesPerS: number
  readonly highBytesPerS: number
}

/** Maximum step of the walk, as a share of its range. */
const maxStep = 0.2

/** A random walk with a random start, reflected at both ends of its range. */
export function randomWalk(
  { lowBytesPerS, highBytesPerS }: WalkRange,
  intervalMs: number,
  count: number,
  random: Random,
): RateTrace {
  const span = highBytesPerS - lowBytesPerS
  let at = random.next()
  const bytesPerS: number[] = []
  // No closure: it would allocate each number that it changes, and the simulator draws millions.
  for (let i = 0; i < count; i += 1) {
    bytesPerS.push(lowBytesPerS + at * span)
    at = reflected(at + (2 * random.next() - 1) * maxStep)
  }
  return { intervalMs, bytesPerS }
}

const reflected = (at: number) => (at < 0 ? -at : at > 1 ? 2 - at : at)

/** The rate at a time. */
export function rateAt({ intervalMs, bytesPerS }: RateTrace, atMs: number): number {
  return bytesPerS[Math.floor(atMs / intervalMs) % bytesPerS.length]!
}

/** When the last of `bytes` bytes has left, if the link starts with them at `startMs` >= 0 and carries nothing else. */
export function servedMs(trace: RateTrace, startMs: number, bytes: number): number {
  let atMs = startMs
  let left = bytes
  while (left > 0) {
    const bytesPerMs = rateAt(trace, atMs) / 1_000
    // Computed from the interval's index: a sum of lengths would accumulate rounding errors and might never pass an end.
    const endMs = (Math.floor(atMs / trace.intervalMs) + 1) * trace.intervalMs
    const carried = (endMs - atMs) * bytesPerMs
    if (carried >= left) return atMs + left / bytesPerMs
    left -= carried
    atMs = endMs
  }
  return atMs
}

/** The same shape with another mean. No rate is below a twentieth of it, because nothing ends on a link without rate. */
export function scaledTo({ intervalMs, bytesPerS }: RateTrace, meanBytesPerS: number): RateTrace {
  const mean = bytesPerS.reduce((sum, rate) => sum + rate, 0) / bytesPerS.length
  return { intervalMs, bytesPerS: bytesPerS.map((rate) => Math.max(rate * (meanBytesPerS / mean), meanBytesPerS / 20)) }
}

/** The same trace, starting `intervals` intervals later. */
export function shifted({ intervalMs, bytesPerS }: RateTrace, intervals: number): RateTrace {
  const from = intervals % bytesPerS.length
  return { intervalMs, bytesPerS: [...bytesPerS.slice(from), ...bytesPerS.slice(0, from)] }
}
