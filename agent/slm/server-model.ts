import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { readApiKey } from '../../core/answer/upstream/api-key.ts'
import { type UpstreamLimits, upstreamEndpoint } from '../../core/answer/upstream/endpoint.ts'
import type { LeavingOf } from '../../core/answer/upstream/leaving.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Random } from '../../core/kit/base/random.ts'

/** A small model on a server with OpenAI's API, on this device or near it. */
export interface ServerModel {
  readonly name: string
  readonly url: string
  /** Its deltas carry the log probabilities of their tokens, where the server gives them. */
  readonly endpoint: Endpoint
}

export interface ServerModelOptions {
  readonly url: string
  /** As the server calls it. */
  readonly model: string
  readonly keyFile?: string | undefined
  readonly leavingOf: LeavingOf
  readonly limits: UpstreamLimits
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** The server may start later than the agent. @throws BrimError CONFIG_INVALID for its key */
export function openServerModel({ url, model, keyFile, ...options }: ServerModelOptions): ServerModel {
  const { logger } = options
  const key = () => (keyFile === undefined ? undefined : readApiKey(keyFile))
  key()
  const common = { ...options, url, model, key, logger: logger.child({ url }) }
  const scored = upstreamEndpoint({ ...common, scored: true })
  const plain = upstreamEndpoint(common)
  let givesScores = true
  const endpoint: Endpoint = {
    model: plain.model,
    async *answer(request, signal) {
      if (!givesScores) return yield* plain.answer(request, signal)
      let hasText = false
      try {
        for await (const delta of scored.answer(request, signal)) {
          hasText = true
          yield delta
        }
        return
      } catch (error) {
        if (hasText || !(error instanceof BrimError) || error.code !== 'REQUEST_INVALID') throw error
      }
      // The server rejects the request: for the log probabilities, if it accepts it without them.
      for await (const delta of plain.answer(request, signal)) {
        if (givesScores) logger.warn({ model }, 'the server of the small model gives no log probabilities')
        givesScores = false
        yield delta
      }
    },
  }
  return { name: model, url, endpoint }
}
