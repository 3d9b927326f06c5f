import type { Distribution } from '../estimate/distribution.ts'

/** A start is late when so many of all starts are earlier. */
const lateLevel = 0.95
/** With α = 0.05, three late starts in a row of a server that works are one in 8,000. */
const failedAfter = 3

/**
 * Whether a server that accepts requests has stopped answering them: learned as slow starts, they would only make the device wait
 * longer and longer. Mutable.
 */
export class SilentStarts {
  #inARow = 0
  /** Of the starts before the first of them, which make F longer. */
  #lateMs = 0

  /** Until its next first token the server counts as failed, outside the budget: the device does not wait for it. */
  get isFailed(): boolean {
    return this.#inARow >= failedAfter
  }

  firstToken(): void {
    this.#inARow = 0
  }

  /** The server was given up after so many ms without a token. @param ttftMs F, without this start */
  givenUp(ms: number, ttftMs: Distribution): void {
    if (this.#inARow === 0) this.#lateMs = ttftMs.quantile(lateLevel)
    if (ms >= this.#lateMs) this.#inARow += 1
  }
}
