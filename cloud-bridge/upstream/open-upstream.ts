import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { readApiKey } from '../../core/answer/upstream/api-key.ts'
import { upstreamEndpoint } from '../../core/answer/upstream/endpoint.ts'
import { leftByClients } from '../../core/answer/upstream/leaving.ts'
import { upstreamLimitsOf } from '../../core/answer/upstream/limit-table.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { UpstreamConfig } from '../config.ts'
import type { BridgeLimits } from '../limits.ts'

/** Where the upstream asks for a longer wait (`Retry-After`), the client is asked instead. */
const maxRetryAfterMs = 10_000

/** Another server as the bridge's LLM. It may start later than the bridge. @throws BrimError CONFIG_INVALID for its key */
export function openUpstream(
  { url, model, keyFile, continues }: UpstreamConfig,
  limits: BridgeLimits,
  clock: Clock,
  logger: Logger,
): Endpoint {
  const key = () => (keyFile === undefined ? undefined : readApiKey(keyFile))
  key()
  const random = seededRandom(nextSeed())
  return upstreamEndpoint({
    url,
    model,
    key,
    continues,
    leavingOf: leftByClients,
    limits: upstreamLimitsOf('upstream', limits, {
      queue: limits.upstreamQueue,
      maxRetryAfterMs,
    }),
    clock,
    random,
    logger: logger.child({ url }),
  })
}
