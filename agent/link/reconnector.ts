import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Random } from '../../core/base/random.ts'
import { failuresAfter, fullJitterMs, reconnectLimits } from '../../core/policy/link/back-off.ts'

export interface ReconnectorOptions {
  /** Names the connection in log lines. */
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Resolves to a connection, whose `closed` resolves with the cause when it has closed; rejects if none can be made. */
  connect(signal: AbortSignal): Promise<{ readonly closed: Promise<unknown> }>
}

/**
 * Maintains one connection until `stop`: connects, waits for it to close, waits (full jitter, 1 s to 5 min), connects again.
 * A bridge may be away for days: a warning is logged when the connection is lost and when the reason changes, and debug
 * lines for the attempts in between.
 */
export class Reconnector {
  readonly #options: ReconnectorOptions
  readonly #stopping = new AbortController()
  /** Ends the present wait. */
  #wait = new AbortController()
  #onAttempted: (() => void)[] = []
  #running: Promise<void> | undefined

  constructor(options: ReconnectorOptions) {
    this.#options = options
  }

  /** Begins the first attempt. Further calls do nothing. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Ends the present wait; resolves when the next attempt has succeeded or failed, or after `stop`. */
  retryNow(): Promise<void> {
    this.#wait.abort()
    return new Promise((resolve) => this.#onAttempted.push(resolve))
  }

  /** Makes no further attempts. The caller closes the present connection; resolves when it has closed. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    this.#attempted()
  }

  #attempted(): void {
    for (const resolve of this.#onAttempted.splice(0)) resolve()
  }

  async #run(): Promise<void> {
    const { name, clock, random, logger, connect } = this.#options
    const { signal } = this.#stopping
    let failures = 0
    /** Reason of the last warning. */
    let warnedReason: string | undefined
    while (!signal.aborted) {
      const startedMs = clock.nowMs()
      try {
        const connection = await connect(signal).finally(() => this.#attempted())
        warnedReason = undefined
        // Already now: a caller may learn of the end of this connection, and call `retryNow`, before this loop does.
        this.#wait = new AbortController()
        const cause = await connection.closed
        if (signal.aborted) return
        logger.warn({ err: cause }, `${name} connection lost`)
      } catch (err) {
        if (signal.aborted) return
        const reason = reasonOf(err)
        logger[reason === warnedReason ? 'debug' : 'warn']({ err, failures: failures + 1 }, `${name} unreachable, retrying`)
        warnedReason = reason
        this.#wait = new AbortController()
      }
      failures = failuresAfter(failures, clock.nowMs() - startedMs)
      const waitMs = fullJitterMs(failures, reconnectLimits, random.next())
      await clock.sleep(waitMs, AbortSignal.any([this.#wait.signal, signal])).catch(() => {})
    }
  }
}

/** Distinguishes kinds of failure. */
const reasonOf = (error: unknown): string => (error instanceof BrimError ? error.code : String(error))
