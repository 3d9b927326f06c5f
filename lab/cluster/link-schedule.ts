import type { Random } from '../../core/base/random.ts'
import { type RateTrace, servedMs } from './rate-trace.ts'

/** One direction of a link. */
export interface DirectionShape {
  readonly rates: RateTrace
  /** One way, without the time that the bytes take. */
  readonly delayMs: number
  /** Either way, uniform; drawn anew when the direction has been idle. */
  readonly jitterMs: number
}

/** Idle time that a link is ahead: so much of a frame leaves at once. About one state at the rates of the benchmark. */
const burstMs = 1

/**
 * A token bucket on a link whose rate varies: when bytes that enter now come out. Pure; nothing overtakes what entered
 * before it, and no byte leaves faster than the rates allow but for the burst.
 */
export class LinkSchedule {
  readonly #shape: DirectionShape
  readonly #random: Random
  /** When the bucket has served all that entered; may lie in the past. */
  #freeMs = 0
  #arrivedMs = 0
  #jitterMs = 0

  constructor(shape: DirectionShape, random: Random) {
    this.#shape = shape
    this.#random = random
  }

  /** @param nowMs since the link's start, never falling; @returns when these bytes come out */
  admit(bytes: number, nowMs: number): number {
    const { rates, delayMs, jitterMs } = this.#shape
    if (this.backlogMs(nowMs) === 0) this.#jitterMs = (2 * this.#random.next() - 1) * jitterMs
    this.#freeMs = servedMs(rates, Math.max(this.#freeMs, nowMs - burstMs, 0), bytes)
    const departMs = Math.max(nowMs, this.#freeMs)
    this.#arrivedMs = Math.max(this.#arrivedMs, departMs + Math.max(0, delayMs + this.#jitterMs))
    return this.#arrivedMs
  }

  /** How long what has entered takes to leave. */
  backlogMs(nowMs: number): number {
    return Math.max(0, this.#freeMs - nowMs)
  }
}
