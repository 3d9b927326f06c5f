import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/base/clock.ts'
import type { LinkRates } from '../../core/policy/hat/link-rates.ts'
import { askAfterS, giveUpAfterS } from '../../core/policy/hat/silence.ts'
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
  #bytes = 0
  #heard = false
  #watching = false

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  /** So many bytes were sent, and are to be answered. @returns to be called when they are, or nobody waits any more */
  expect(bytes: number): () => void {
    const cost = bytes + frameCostBytes
    this.#awaited += 1
    this.#bytes += cost
    if (!this.#watching) void this.#watch()
    let answered = false
    return () => {
      if (answered) return
      answered = true
      this.#awaited -= 1
      this.#bytes -= cost
    }
  }

  hear(): void {
    this.#heard = true
  }

  async #watch(): Promise<void> {
    const { rates, ask, giveUp, ended } = this.#options
    this.#watching = true
    while (this.#awaited > 0 && !ended.aborted) {
      if (!(await this.#isSilentFor(askAfterS({ bytes: this.#bytes, rates })))) continue
      // It may have stopped reading, and would not see the question.
      if (this.#bytes > readAheadBytes) continue
      ask()
      if (await this.#isSilentFor(giveUpAfterS({ bytes: this.#bytes, rates }))) return giveUp()
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
