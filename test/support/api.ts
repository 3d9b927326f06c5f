import { type Api, type ApiOptions, startApi } from '../../agent/api/server.ts'
import { AgentLimits } from '../../agent/limits.ts'
import { createAgentMetrics } from '../../agent/metrics/agent-metrics.ts'
import { Embeddings } from '../../core/answer/embeddings/embeddings.ts'
import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import { silentLogger } from './silent-logger.ts'
import { someSpending } from './spending.ts'

/** A device's API on a free loopback port, answered by `endpoint`. */
export const startTestApi = (
  { card }: Pick<Manifest, 'card'>,
  endpoint: Endpoint,
  options: Partial<ApiOptions> = {},
): Promise<Api> =>
  startApi({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: AgentLimits.parse({}).apiBodyBytes,
    requestLimits: AgentLimits.parse({}),
    models: [{ name: card.name, endpoint, createdAt: card.createdAt }],
    nextSeed: () => 1,
    embeddings: new Embeddings({ model: undefined, limits: AgentLimits.parse({}) }),
    health: () => ({}),
    problems: () => [],
    metrics: createAgentMetrics(5, {
      device: 'test',
      version: '0',
      provider: () => undefined,
      measure: () => ({ link: null, speed: { prefillTokensPerS: null, draftStepMs: null } }),
    }),
    spending: () => someSpending,
    disclosures: () => ({ recording: { failure: null, unstored: 0 }, disclosures: [] }),
    condition: () => undefined,
    access: { allowedHosts: [] },
    meter: new AnswerMeter(systemClock),
    clock: systemClock,
    logger: silentLogger(),
    ...options,
  })
