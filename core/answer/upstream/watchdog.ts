import type { Clock } from '../../kit/base/clock.ts'

/** Aborts its signal when something takes too long. Setting a new limit, which is done for every token, starts no timer. */
export class Watchdog {
  readonly #clock: Clock
  readonly #expired = new AbortController()
  #timer = new AbortController()
  #limitMs = Number.POSITIVE_INFINITY
  #timerMs = Number.POSITIVE_INFINITY
  #error: () => Error = () => new Error('a time limit expired')

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get signal(): AbortSignal {
    return this.#expired.signal
  }

  /** Replaces the limit before it. @param ms from now @param error the reason of the signal */
  allow(ms: number, error: () => Error): void {
    this.#limitMs = this.#clock.nowMs() + ms
    this.#error = error
    if (this.#limitMs < this.#timerMs) this.#startTimer()
  }

  /** Until the next limit, nothing takes too long. */
  pause(): void {
    this.#limitMs = Number.POSITIVE_INFINITY
  }

  close(): void {
    this.#timer.abort()
  }

  #startTimer(): void {
    this.#timer.abort()
    this.#timer = new AbortController()
    this.#timerMs = this.#limitMs
    this.#clock.sleep(this.#limitMs - this.#clock.nowMs(), this.#timer.signal).then(
      () => this.#look(),
      () => {},
    )
  }

  #look(): void {
    this.#timerMs = Number.POSITIVE_INFINITY
    if (this.#limitMs <= this.#clock.nowMs()) this.#expired.abort(this.#error())
    else if (this.#limitMs < Number.POSITIVE_INFINITY) this.#startTimer()
  }
}
