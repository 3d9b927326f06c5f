import type { Clock } from '../../core/kit/base/clock.ts'
import type { BrimError } from '../../core/kit/base/errors.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { fullJitterMs } from '../../core/policy/link/back-off.ts'

export interface PatienceOptions {
  /** Whether this device is connected to a bridge. */
  readonly isConnected: () => boolean
  /** Time without a byte, while the device is connected, after which the download is given up. */
  readonly maxSilentMs: number
  readonly clock: Clock
  readonly random: Random
}

const backOff = { firstMs: 1_000, maxMs: 30_000 }

/**
 * How long a download goes on although its connections break: without limit while the device has no link, and for some time
 * without a byte while it has one.
 */
export class Patience {
  readonly #options: PatienceOptions
  #failures = 0
  #silentMs = 0

  constructor(options: PatienceOptions) {
    this.#options = options
  }

  /** The server has sent something. */
  onBytes(): void {
    this.#failures = 0
    this.#silentMs = 0
  }

  /** Waits until the next try. @param error why it is needed; thrown if there is none. @throws the signal's reason */
  async wait(error: BrimError, signal: AbortSignal): Promise<void> {
    const { isConnected, maxSilentMs, clock, random } = this.#options
    if (isConnected() && this.#silentMs >= maxSilentMs) throw error
    this.#failures += 1
    const ms = fullJitterMs(this.#failures, backOff, random.next())
    await clock.sleep(ms, signal)
    // Of the time since the last byte, the waits count: a silent server ends each try by itself.
    if (isConnected()) this.#silentMs += ms
  }
}
