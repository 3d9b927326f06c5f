import type { Endpoint, TextDelta } from '../answer/endpoint.ts'
import type { RemoteModel } from '../answer/text-model.ts'
import type { Clock } from '../base/clock.ts'
import { BrimError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import type { Random } from '../base/random.ts'
import { type RetryLimits, retryWaitMs } from '../policy/upstream/retry.ts'
import { UpstreamFailures } from './failure.ts'
import { type OpenLimits, openStream } from './open-stream.ts'
import { type AnswerLimits, readAnswer } from './read-answer.ts'
import { upstreamRequest } from './request-body.ts'
import { type SlotLimits, Slots } from './slots.ts'
import { Watchdog } from './watchdog.ts'

export interface UpstreamLimits extends SlotLimits, RetryLimits, OpenLimits, AnswerLimits {
  /** For an answer, with the wait for a slot and all attempts. */
  readonly totalMs: number
}

export interface UpstreamOptions {
  /** Base URL of OpenAI's API, such as http://127.0.0.1:8000/v1 */
  readonly url: string
  /** As the upstream calls it. */
  readonly model: string
  /** Read for each attempt, so that a key can be replaced. @throws BrimError CONFIG_INVALID */
  readonly key: () => string | undefined
  /** Whether answers carry the log probabilities of their tokens, where the server gives them. Default: false. */
  readonly scored?: boolean
  readonly limits: UpstreamLimits
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/**
 * A server with OpenAI's API as an endpoint. A request that fails before its first token is repeated, if a retry may succeed;
 * later failures end the answer, because a second attempt would answer differently.
 */
export function upstreamEndpoint({ url, model: name, key, scored, limits, clock, random, logger }: UpstreamOptions): Endpoint {
  const model: RemoteModel = { name }
  const slots = new Slots(limits)
  const failures = new UpstreamFailures(name)

  return {
    model,
    async *answer(request, signal) {
      const asked = upstreamRequest(request, name, scored)
      const total = new Watchdog(clock)
      total.allow(limits.totalMs, () => failures.failed(`did not finish within ${limits.totalMs / 1_000} s`))
      const ended = AbortSignal.any([signal, total.signal])
      const reading = { model, maxTokens: request.maxTokens ?? Number.POSITIVE_INFINITY }

      async function* attempt(): AsyncGenerator<TextDelta> {
        const watchdog = new Watchdog(clock)
        const stopped = new AbortController()
        const stopping = AbortSignal.any([ended, watchdog.signal, stopped.signal])
        try {
          const body = await openStream({ url, key: key() }, asked, limits, watchdog, failures, stopping)
          yield* readAnswer(body, reading, limits, watchdog, failures)
        } catch (error) {
          ended.throwIfAborted()
          watchdog.signal.throwIfAborted()
          throw error instanceof BrimError ? error : failures.brokenOff(error)
        } finally {
          watchdog.close()
          stopped.abort()
        }
      }

      let free = () => {}
      try {
        free = await slots.take(ended)
        for (let failed = 1; ; failed++) {
          let hasText = false
          try {
            for await (const delta of attempt()) {
              hasText = true
              yield delta
            }
            return
          } catch (error) {
            ended.throwIfAborted()
            const retryAfterMs = error instanceof BrimError ? error.retryAfterMs : undefined
            const waitMs = hasText ? undefined : retryWaitMs(failed, retryAfterMs, limits, random.next())
            if (waitMs === undefined) throw error
            logger.info({ err: error, failed, waitMs }, 'the upstream failed before its first token: another attempt follows')
            await clock.sleep(waitMs, ended).catch(() => ended.throwIfAborted())
          }
        }
      } finally {
        free()
        total.close()
      }
    },
  }
}
