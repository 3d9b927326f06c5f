import { readApiKey } from '../../core/answer/upstream/api-key.ts'
import { upstreamEndpoint } from '../../core/answer/upstream/endpoint.ts'
import { leftByClients } from '../../core/answer/upstream/leaving.ts'
import { upstreamLimitsOf } from '../../core/answer/upstream/limit-table.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { BridgeConfig } from '../config.ts'
import { UpstreamPool } from './upstream-pool.ts'

/** Where upstreams ask for a longer wait (`Retry-After`), or none is up for longer, the client is asked to wait instead. */
const maxRetryAfterMs = 10_000

/** Other servers as the bridge's LLMs. They may start later than the bridge. @throws BrimError CONFIG_INVALID for their keys */
export function openUpstreams(
  { upstreams, limits: bridgeLimits }: Pick<BridgeConfig, 'upstreams' | 'limits'>,
  clock: Clock,
  logger: Logger,
): UpstreamPool {
  const limits = upstreamLimitsOf('upstream', bridgeLimits, { queue: bridgeLimits.upstreamQueue, maxRetryAfterMs })
  const random = seededRandom(nextSeed())
  // Attempts and their number are the pool's.
  const once = { ...limits, retries: 0, totalMs: Number.POSITIVE_INFINITY }
  const servers = upstreams.map(({ url, models, weight, keyFile, continues }, at) => {
    const key = () => (keyFile === undefined ? undefined : readApiKey(keyFile))
    key()
    const name = upstreams.length === 1 ? `the upstream of ${models.join(', ')}` : `upstream ${at + 1}`
    const leavingOf = leftByClients
    const common = {
      url,
      serverName: name,
      key,
      continues,
      leavingOf,
      limits: once,
      clock,
      random,
      logger: logger.child({ url }),
    }
    const endpoints = new Map(models.map((model) => [model, upstreamEndpoint({ ...common, model })]))
    return { name, url, key, weight, continues, endpoints }
  })
  return new UpstreamPool({ servers, limits, clock, random, logger })
}
