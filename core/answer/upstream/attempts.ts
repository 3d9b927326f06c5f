import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import type { Clock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import type { Logger } from '../../kit/base/logger.ts'
import type { Random } from '../../kit/base/random.ts'
import { type RetryLimits, retryWaitMs } from '../../policy/upstream/retry.ts'
import type { AnswerDelta } from '../endpoint/endpoint.ts'
import type { UpstreamFailures } from './failure.ts'
import type { Leaving } from './leaving.ts'
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
interface Asking<Delta extends AnswerDelta> {
  /** Of all attempts. */
  readonly leaving: Leaving
  /** @throws BrimError; those with `retryAfterMs` may be retried */
  open(watchdog: Watchdog, signal: AbortSignal): Promise<IncomingMessage>
  read(body: AsyncIterable<Uint8Array>, watchdog: Watchdog): AsyncGenerator<Delta, void>
  /** Whether the server may answer the attempt that has failed, and be paid for it. Absent: it costs nothing. */
  mayBeBilled?(): boolean
}

/** For the end of a response whose answer has ended. */
const responseEndMs = 100

/** Reads the rest of a response, so that its connection may serve another request, unless it does not end soon. */
async function untilRead(body: IncomingMessage, clock: Clock): Promise<void> {
  const timer = new AbortController()
  body.resume()
  await Promise.race([finished(body), clock.sleep(responseEndMs, timer.signal)]).catch(() => {})
  timer.abort()
}

export type Attempts = <Delta extends AnswerDelta>(asking: Asking<Delta>, signal: AbortSignal) => AsyncGenerator<Delta, void>

/**
 * The requests to one server, a bounded number at once. A request that fails before its first token is repeated, if a retry
 * may succeed; later failures end the answer, because a second attempt would answer differently, or be paid for twice.
 */
export function createAttempts({ limits, failures, clock, random, logger }: AttemptOptions): Attempts {
  const slots = new Slots(limits)

  async function* attempt<Delta extends AnswerDelta>(
    { leaving, open, read }: Asking<Delta>,
    ended: AbortSignal,
  ): AsyncGenerator<Delta, void> {
    const watchdog = new Watchdog(clock)
    const stopping = new AbortController()
    const given = AbortSignal.any([ended, watchdog.signal])
    const stop = () => stopping.abort(given.reason)
    if (given.aborted) stop()
    given.addEventListener('abort', stop, { once: true })
    /** Whose answer has ended: its reader may leave, and it still be read. */
    let complete: IncomingMessage | undefined
    try {
      const body = await open(watchdog, stopping.signal)
      // Of what is not read any more.
      body.on('error', () => {})
      for await (const delta of read(body.iterator({ destroyOnReturn: false }), watchdog)) {
        // What has come already is not wanted any more.
        ended.throwIfAborted()
        leaving.received('text' in delta ? delta.tokenCount : delta.tokens.length)
        if (delta.end) {
          complete = body
          given.removeEventListener('abort', stop)
        }
        yield delta
      }
    } catch (error) {
      ended.throwIfAborted()
      watchdog.signal.throwIfAborted()
      throw error instanceof BrimError ? error : failures.brokenOff(error)
    } finally {
      watchdog.close()
      if (complete) await untilRead(complete, clock)
      given.removeEventListener('abort', stop)
      stopping.abort()
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
      asking.leaving.ended()
      free()
      total.close()
    }
  }
}
