import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Expectation, Progress } from '../../core/kit/base/progress.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { backoffLimits, failuresAfter, fullJitterMs, msUntilAttempt } from '../../core/policy/link/back-off.ts'

export interface ReconnectorOptions {
  /** Names the connection in log lines. */
  readonly name: string
  /** Bound of the longest wait between two attempts, in seconds. */
  readonly reconnectMaxS: number
  /** Number of devices that reconnect together, as far as it is known. */
  readonly fleetSize?: (() => number | undefined) | undefined
  /** Notices that this loop stands still. */
  readonly progress?: Progress | undefined
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Resolves to a connection, whose `closed` resolves with the cause when it has closed; rejects if none can be made. */
  connect(signal: AbortSignal): Promise<{ readonly closed: Promise<unknown> }>
}

/**
 * Maintains one connection until `stop`: connects, waits for it to close, waits with full jitter, connects again. Attempts
 * that `retryNow` requests come in addition and leave the schedule of the others as it is.
 * A bridge may be away for days: a warning is logged when the connection is lost and when the reason changes, and debug
 * lines for the attempts in between.
 */
export class Reconnector {
  readonly #options: ReconnectorOptions
  readonly #stopping = new AbortController()
  /** Ends the present wait. */
  #wake = new AbortController()
  #isRequested = false
  #onAttempted: (() => void)[] = []
  #running: Promise<void> | undefined
  readonly #expectation: Expectation | undefined
  #warnedReason: string | undefined

  constructor(options: ReconnectorOptions) {
    this.#options = options
    this.#expectation = options.progress?.expect(options.name)
  }

  /** Begins the first attempt. Further calls do nothing. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Requests an attempt without delay; resolves when the next one has succeeded or failed, or after `stop`. */
  retryNow(): Promise<void> {
    this.#isRequested = true
    this.#wake.abort()
    return new Promise((resolve) => this.#onAttempted.push(resolve))
  }

  /** Makes no further attempts. The caller closes the present connection; resolves when it has closed. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    this.#expectation?.rest()
    this.#attempted()
  }

  #attempted(): void {
    this.#isRequested = false
    for (const resolve of this.#onAttempted.splice(0)) resolve()
  }

  async #run(): Promise<void> {
    const { clock, random, reconnectMaxS, fleetSize } = this.#options
    const { signal } = this.#stopping
    let failures = 0
    let waitMs = 0
    let dueMs = clock.nowMs()
    while (!signal.aborted) {
      const startedMs = clock.nowMs()
      const isDue = !this.#isRequested || startedMs >= dueMs
      const hasConnected = await this.#attempt(failures)
      if (signal.aborted) return
      // A failed request leaves the back-off as it is.
      const nowMs = clock.nowMs()
      if (isDue || hasConnected) {
        failures = failuresAfter(failures, nowMs - startedMs)
        waitMs = fullJitterMs(failures, backoffLimits(fleetSize?.(), reconnectMaxS * 1_000), random.next())
        dueMs = nowMs + waitMs
      }
      // Later than that: the clock was set back.
      dueMs = Math.min(dueMs, nowMs + waitMs)
      await this.#wait(startedMs, dueMs, waitMs)
    }
  }

  /** @returns whether there was a connection; it has closed */
  async #attempt(failures: number): Promise<boolean> {
    const { name, logger, connect } = this.#options
    const { signal } = this.#stopping
    try {
      this.#expectation?.within(maxAttemptMs)
      // Settled before the connection closes: a caller may learn of its end, and call `retryNow`, before this loop does.
      const { closed } = await connect(signal).finally(() => this.#attempted())
      this.#warnedReason = undefined
      this.#expectation?.rest()
      const cause = await closed
      if (!signal.aborted) logger.warn({ err: cause }, `${name} connection lost`)
      return true
    } catch (err) {
      if (signal.aborted) return false
      const reason = reasonOf(err)
      const level = reason === this.#warnedReason ? 'debug' : 'warn'
      logger[level]({ err, failures: failures + 1 }, `${name} unreachable, retrying`)
      this.#warnedReason = reason
      return false
    }
  }

  /** Waits until the next attempt is due or requested. @param maxMs longer would mean that the clock was set back */
  async #wait(startedMs: number, dueMs: number, maxMs: number): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#stopping
    let hasSlept = false
    while (!hasSlept && !signal.aborted) {
      const waitMs = msUntilAttempt(dueMs, startedMs, this.#isRequested, clock.nowMs())
      if (waitMs <= 0) return
      this.#wake = new AbortController()
      this.#expectation?.within(maxMs + maxAttemptMs)
      hasSlept = await clock.sleep(Math.min(waitMs, maxMs), AbortSignal.any([this.#wake.signal, signal])).then(
        () => true,
        () => false,
      )
    }
  }
}

/** Attempts have time limits of their own, which are far shorter. */
const maxAttemptMs = 5 * 60_000

/** Distinguishes kinds of failure. */
const reasonOf = (error: unknown): string => (error instanceof BrimError ? error.code : String(error))
