import { randomInt } from 'node:crypto'
import type { Endpoint } from '../../core/answer/endpoint.ts'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { readSecret } from '../../core/base/private-file.ts'
import { seededRandom } from '../../core/base/random.ts'
import { type UpstreamLimits, upstreamEndpoint } from '../../core/upstream/endpoint.ts'
import type { UpstreamConfig } from '../config.ts'
import type { BridgeLimits } from '../limits.ts'

const seedBound = 2 ** 32

/** Another server as the bridge's LLM. It may start later than the bridge. @throws BrimError CONFIG_INVALID for its key */
export function openUpstream(
  { url, model, keyFile }: UpstreamConfig,
  limits: BridgeLimits,
  clock: Clock,
  logger: Logger,
): Endpoint {
  const key = () => (keyFile === undefined ? undefined : readKey(keyFile))
  key()
  const random = seededRandom(randomInt(seedBound))
  return upstreamEndpoint({ url, model, key, limits: upstreamLimits(limits), clock, random, logger: logger.child({ url }) })
}

/** What a header can hold. */
function readKey(file: string): string {
  const key = readSecret(file)
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new BrimError('CONFIG_INVALID', `${file} does not hold an API key`, { hint: 'one line, without spaces' })
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
