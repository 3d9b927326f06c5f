import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { askAfterS, giveUpAfterS, type PendingReplies } from '../../core/policy/link/silence.ts'
import { frameCostBytes, readAheadBytes } from '../../core/wire/protocol/messages.ts'

export interface SilenceWatchOptions {
  readonly clock: Clock
  readonly rates: LinkRates
  /** Sends a ping. */
  ask(): void
  /** Closes the connection: the ping was not answered in time. */
  giveUp(): void
  /** Aborted when the connection has closed. */
  readonly ended: AbortSignal
}

/**
 * Detects within seconds that a bridge which owes replies is unreachable, when no socket reports it. Any message counts as a
 * sign of life; others check whether it is correct. Measures time by sleeps alone, so a clock that jumps does no harm.
 */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions
  #replies = 0
  #bytesUp = 0
  #bytesDown = 0
  #isAlive = false
  #watching = false

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  /**
   * Expects a reply of `bytesDown` bytes to a message of `bytesUp` bytes.
   * @returns to be called when the reply has arrived, or is no longer needed
   */
  expect(bytesUp: number, bytesDown: number): () => void {
    const cost = bytesUp + frameCostBytes
    this.#replies += 1
    this.#bytesUp += cost
    this.#bytesDown += bytesDown
    if (!this.#watching) void this.#watch()
    let isSettled = false
    return () => {
      if (isSettled) return
      isSettled = true
      this.#replies -= 1
      this.#bytesUp -= cost
      this.#bytesDown -= bytesDown
    }
  }

  onSignOfLife(): void {
    this.#isAlive = true
  }

  get #pending(): PendingReplies {
    return { bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, rates: this.#options.rates }
  }

  async #watch(): Promise<void> {
    const { ask, giveUp, ended } = this.#options
    this.#watching = true
    while (this.#replies > 0 && !ended.aborted) {
      if (!(await this.#isSilentFor(askAfterS(this.#pending)))) continue
      // The bridge may have stopped reading because of them, and would not see the ping.
      if (this.#bytesUp > readAheadBytes) continue
      ask()
      if (await this.#isSilentFor(giveUpAfterS(this.#pending))) return giveUp()
    }
    this.#watching = false
  }

  async #isSilentFor(seconds: number): Promise<boolean> {
    const { clock, ended } = this.#options
    this.#isAlive = false
    await clock.sleep(seconds * 1_000, ended).catch(() => {})
    // If this process was suspended, messages that arrived meanwhile have not been read yet.
    await nextTurn()
    return !this.#isAlive && this.#replies > 0 && !ended.aborted
  }
}
