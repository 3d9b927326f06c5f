import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Random } from '../../core/base/random.ts'
import { fullJitterMs, reconnectLimits } from '../../core/policy/link/back-off.ts'

/** A connection that broke sooner than this counts as one more failure: it may be refused again and again. */
const stableMs = 30_000

export interface ReconnectorOptions {
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Connects and resolves to a promise for the end of that connection; rejects where it cannot be made. */
  connect(signal: AbortSignal): Promise<{ readonly gone: Promise<unknown> }>
}

export interface Reconnector {
  /** Makes the first attempt; once is enough. */
  start(): void
  /** Somebody needs the connection: cuts the present wait short, resolves when the attempt has succeeded or failed. */
  retryNow(): Promise<void>
  /** No further attempts; resolves when none is under way and the connection, which is the caller's to close, is gone. */
  stop(): Promise<void>
}

/**
 * Keeps one connection up for good: connect, wait for its end, wait (full jitter, 1 s to 5 min), again. A bridge may be
 * away for days: only what has changed is worth a warning, the attempts in between are for debugging.
 */
export function keepConnected({ name: what, clock, random, logger, connect }: ReconnectorOptions): Reconnector {
  const stopping = new AbortController()
  let wait = new AbortController()
  let watchers: (() => void)[] = []
  const attempted = () => {
    const told = watchers
    watchers = []
    for (const tell of told) tell()
  }

  async function run(): Promise<void> {
    let failures = 0
    /** Why it is away, where that has been said. */
    let told: string | undefined
    while (!stopping.signal.aborted) {
      const startedMs = clock.nowMs()
      try {
        const connection = await connect(stopping.signal).finally(attempted)
        told = undefined
        // From now on: whoever learns of its end before we do may already ask for the next one.
        wait = new AbortController()
        const reason = await connection.gone
        if (stopping.signal.aborted) return
        logger.warn({ err: reason }, `${what} connection lost`)
      } catch (err) {
        if (stopping.signal.aborted) return
        const reason = reasonOf(err)
        logger[reason === told ? 'debug' : 'warn']({ err, failures: failures + 1 }, `${what} unreachable, retrying`)
        told = reason
        wait = new AbortController()
      }
      failures = clock.nowMs() - startedMs < stableMs ? failures + 1 : 1
      await clock
        .sleep(fullJitterMs(failures, reconnectLimits, random), AbortSignal.any([wait.signal, stopping.signal]))
        .catch(() => {})
    }
  }

  let running: Promise<void> | undefined
  return {
    start() {
      running ??= run()
    },
    retryNow() {
      wait.abort()
      return new Promise((resolve) => watchers.push(resolve))
    },
    async stop() {
      stopping.abort()
      await running
      attempted()
    },
  }
}

/** What tells one kind of failure from another. */
const reasonOf = (error: unknown): string => (error instanceof BrimError ? error.code : String(error))
