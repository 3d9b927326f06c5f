import type { Clock } from '../base/clock.ts'

/** Items that are each given the same time. One timer serves all: a timer for each is a tenth of the cost of a connection. */
export class Deadlines<T> {
  readonly #givenMs: number
  readonly #clock: Clock
  readonly #onExpired: (item: T) => void
  /** Item → when it expires, in order. */
  readonly #expiresMs = new Map<T, number>()
  readonly #stopping = new AbortController()
  #isRunning = false

  constructor(givenMs: number, clock: Clock, onExpired: (item: T) => void) {
    this.#givenMs = givenMs
    this.#clock = clock
    this.#onExpired = onExpired
  }

  add(item: T): void {
    this.#expiresMs.set(item, this.#clock.nowMs() + this.#givenMs)
    if (!this.#isRunning) void this.#run()
  }

  remove(item: T): void {
    this.#expiresMs.delete(item)
  }

  readonly close = (): void => this.#stopping.abort()

  async #run(): Promise<void> {
    this.#isRunning = true
    const { signal } = this.#stopping
    for (;;) {
      const [item, atMs] = this.#expiresMs.entries().next().value ?? []
      if (item === undefined || atMs === undefined || signal.aborted) break
      const waitMs = atMs - this.#clock.nowMs()
      if (waitMs > 0) {
        await this.#clock.sleep(waitMs, signal).catch(() => {})
      } else {
        this.#expiresMs.delete(item)
        this.#onExpired(item)
      }
    }
    this.#isRunning = false
  }
}
