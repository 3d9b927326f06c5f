import type { Random } from '../../core/kit/base/random.ts'
import { type RateTrace, servedMs } from './rate-trace.ts'

/** One direction of a link. */
export interface DirectionShape {
  readonly rates: RateTrace
  /** One way, without the transfer time of the bytes. */
  readonly delayMs: number
  /** ± ms, uniform; drawn again after the direction was idle. */
  readonly jitterMs: number
}

/** Depth of the token bucket, as time: about one state at the benchmark's rates leaves at once. */
const burstMs = 1

/**
 * A token bucket on a link whose rate varies: computes when bytes that enter now come out. Order is preserved, and except for
 * the burst no byte leaves faster than the rates allow.
 */
export class LinkSchedule {
  readonly #shape: DirectionShape
  readonly #random: Random
  /** When the bucket has served everything that entered; may lie in the past. */
  #freeMs = 0
  #arrivedMs = 0
  #jitterMs = 0

  constructor(shape: DirectionShape, random: Random) {
    this.#shape = shape
    this.#random = random
  }

  /**
   * @param nowMs since the link's start, monotonic
   * @returns when these bytes come out
   */
  admit(bytes: number, nowMs: number): number {
    const { rates, delayMs, jitterMs } = this.#shape
    if (this.backlogMs(nowMs) === 0) this.#jitterMs = (2 * this.#random.next() - 1) * jitterMs
    this.#freeMs = servedMs(rates, Math.max(this.#freeMs, nowMs - burstMs, 0), bytes)
    const departMs = Math.max(nowMs, this.#freeMs)
    this.#arrivedMs = Math.max(this.#arrivedMs, departMs + Math.max(0, delayMs + this.#jitterMs))
    return this.#arrivedMs
  }

  /** Time until everything that entered has left. */
  backlogMs(nowMs: number): number {
    return Math.max(0, this.#freeMs - nowMs)
  }
}
