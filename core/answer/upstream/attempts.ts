import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import type { Logger } from '../../kit/base/logger.ts'
import type { Random } from '../../kit/base/random.ts'
import { type RetryLimits, retryWaitMs } from '../../policy/upstream/retry.ts'
import type { UpstreamFailures } from './failure.ts'
import { type SlotLimits, Slots } from './slots.ts'
import { Watchdog } from './watchdog.ts'

export interface AttemptLimits extends SlotLimits, RetryLimits {
  /** For an answer, with the wait for a slot and all attempts. */
  readonly totalMs: number
}

export interface AttemptOptions {
  readonly limits: AttemptLimits
  readonly failures: UpstreamFailures
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** How one answer of a server is asked for and read. */
interface Asking<Delta> {
  /** @throws BrimError; those with `retryAfterMs` may be retried */
  open(watchdog: Watchdog, signal: AbortSignal): Promise<IncomingMessage>
  read(body: IncomingMessage, watchdog: Watchdog): AsyncGenerator<Delta, void>
  /** Whether the server may answer the attempt that has failed, and be paid for it. Absent: it costs nothing. */
  mayBeBilled?(): boolean
}

export type Attempts = <Delta>(asking: Asking<Delta>, signal: AbortSignal) => AsyncGenerator<Delta, void>

/**
 * The requests to one server, a bounded number at once. A request that fails before its first token is repeated, if a retry
 * may succeed; later failures end the answer, because a second attempt would answer differently, or be paid for twice.
 */
export function createAttempts({ limits, failures, clock, random, logger }: AttemptOptions): Attempts {
  const slots = new Slots(limits)

  async function* attempt<Delta>({ open, read }: Asking<Delta>, ended: AbortSignal): AsyncGenerator<Delta, void> {
    const watchdog = new Watchdog(clock)
    const stopped = new AbortController()
    try {
      const body = await open(watchdog, AbortSignal.any([ended, watchdog.signal, stopped.signal]))
      yield* read(body, watchdog)
    } catch (error) {
      ended.throwIfAborted()
      watchdog.signal.throwIfAborted()
      throw error instanceof BrimError ? error : failures.brokenOff(error)
    } finally {
      watchdog.close()
      stopped.abort()
    }
  }

  return async function* attempts(asking, signal) {
    const total = new Watchdog(clock)
    total.allow(limits.totalMs, () => failures.failed(`did not finish within ${limits.totalMs / 1_000} s`))
    const ended = AbortSignal.any([signal, total.signal])
    let free = () => {}
    try {
      free = await slots.take(ended)
      for (let failed = 1; ; failed++) {
        let hasBegun = false
        try {
          for await (const delta of attempt(asking, ended)) {
            hasBegun = true
            yield delta
          }
          return
        } catch (error) {
          ended.throwIfAborted()
          const retryAfterMs = error instanceof BrimError ? error.retryAfterMs : undefined
          const isFinal = hasBegun || asking.mayBeBilled?.()
          const waitMs = isFinal ? undefined : retryWaitMs(failed, retryAfterMs, limits, random.next())
          if (waitMs === undefined) throw error
          logger.info({ err: error, failed, waitMs }, 'the upstream failed before its first token: another attempt follows')
          await clock.sleep(waitMs, ended).catch(() => ended.throwIfAborted())
        }
      }
    } finally {
      free()
      total.close()
    }
  }
}
