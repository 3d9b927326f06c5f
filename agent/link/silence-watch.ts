import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/base/clock.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { askAfterS, giveUpAfterS, type PendingReplies } from '../../core/policy/link/silence.ts'
import { frameCostBytes, readAheadBytes } from '../../core/protocol/messages.ts'

export interface SilenceWatchOptions {
  readonly clock: Clock
  readonly rates: LinkRates
  /** Asks the other side for a sign of life. */
  ask(): void
  /** There was none in time. */
  giveUp(): void
  /** Nothing is watched any more. */
  readonly ended: AbortSignal
}

/**
 * Notices within seconds that a bridge which owes replies is not there any more, where no socket says so. Any sign of
 * life will do: whether a reply is right is for others to judge. Goes by sleeps alone, so a clock that jumps does no harm.
 */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions
  #awaited = 0
  #bytesUp = 0
  #bytesDown = 0
  #heard = false
  #watching = false

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  /**
   * So many bytes were sent, and are to be answered by so many.
   * @returns to be called when they are, or nobody waits any more
   */
  expect(bytesUp: number, bytesDown: number): () => void {
    const cost = bytesUp + frameCostBytes
    this.#awaited += 1
    this.#bytesUp += cost
    this.#bytesDown += bytesDown
    if (!this.#watching) void this.#watch()
    let answered = false
    return () => {
      if (answered) return
      answered = true
      this.#awaited -= 1
      this.#bytesUp -= cost
      this.#bytesDown -= bytesDown
    }
  }

  hear(): void {
    this.#heard = true
  }

  get #owed(): PendingReplies {
    return { bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, rates: this.#options.rates }
  }

  async #watch(): Promise<void> {
    const { ask, giveUp, ended } = this.#options
    this.#watching = true
    while (this.#awaited > 0 && !ended.aborted) {
      if (!(await this.#isSilentFor(askAfterS(this.#owed)))) continue
      // It may have stopped reading, and would not see the question.
      if (this.#bytesUp > readAheadBytes) continue
      ask()
      if (await this.#isSilentFor(giveUpAfterS(this.#owed))) return giveUp()
    }
    this.#watching = false
  }

  async #isSilentFor(seconds: number): Promise<boolean> {
    const { clock, ended } = this.#options
    this.#heard = false
    await clock.sleep(seconds * 1_000, ended).catch(() => {})
    // Where this device slept or hung itself, what came meanwhile has not been read yet.
    await nextTurn()
    return !this.#heard && this.#awaited > 0 && !ended.aborted
  }
}
