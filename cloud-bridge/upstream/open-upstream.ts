import { randomInt } from 'node:crypto'
import type { Endpoint } from '../../core/answer/endpoint.ts'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { seededRandom } from '../../core/base/random.ts'
import { readApiKey } from '../../core/upstream/api-key.ts'
import { type UpstreamLimits, upstreamEndpoint } from '../../core/upstream/endpoint.ts'
import type { UpstreamConfig } from '../config.ts'
import type { BridgeLimits } from '../limits.ts'

const seedBound = 2 ** 32

/** Another server as the bridge's LLM. It may start later than the bridge. @throws BrimError CONFIG_INVALID for its key */
export function openUpstream(
  { url, model, keyFile, continues }: UpstreamConfig,
  limits: BridgeLimits,
  clock: Clock,
  logger: Logger,
): Endpoint {
  const key = () => (keyFile === undefined ? undefined : readApiKey(keyFile))
  key()
  const random = seededRandom(randomInt(seedBound))
  return upstreamEndpoint({
    url,
    model,
    key,
    continues,
    limits: upstreamLimits(limits),
    clock,
    random,
    logger: logger.child({ url }),
  })
}

function upstreamLimits(limits: BridgeLimits): UpstreamLimits {
  return {
    requests: limits.upstreamRequests,
    queue: limits.upstreamQueue,
    retries: limits.upstreamRetries,
    maxRetryAfterMs: limits.upstreamRetryAfterS * 1_000,
    connectMs: limits.upstreamConnectS * 1_000,
    firstTokenMs: limits.upstreamFirstTokenS * 1_000,
    idleMs: limits.upstreamIdleS * 1_000,
    totalMs: limits.upstreamTotalS * 1_000,
    eventChars: limits.upstreamEventChars,
    answerBytes: limits.upstreamAnswerBytes,
  }
}
