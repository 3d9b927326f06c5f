import type { Embeddings } from '../../core/answer/embeddings/embeddings.ts'
import { observe } from '../../core/answer/endpoint/observe.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { firstRequestMs, type HttpLimits, requestMs } from '../../core/kit/listen/http-listener.ts'
import { readApiKeys } from '../api/api-keys.ts'
import type { HealthOptions } from '../api/health.ts'
import { type Api, startApi } from '../api/server.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'
import type { OwnerBudget } from './budget.ts'
import type { AnswerDispatch } from './dispatch.ts'

/** The OpenAI API on this device. @throws BrimError CONFIG_INVALID, LISTEN_* */
export async function openApi(
  { config, clock, closers, logger, disclosures, tracer }: Base,
  answering: Answering,
  dispatch: AnswerDispatch,
  { budget }: OwnerBudget,
  health: Omit<HealthOptions, 'spending' | 'disclosures'>,
  embeddings: Embeddings,
): Promise<Api> {
  const api = await startApi({
    clock,
    tracer,
    meter: answering.meter,
    nextSeed,
    // Read for each request, because the model may change.
    get models() {
      const { model } = dispatch
      return [{ ...model, endpoint: observe(model.endpoint, clock, health.metrics.onAnswer) }]
    },
    dispatch: dispatch.planner,
    fallback: config.dispatch.fallback,
    get slm() {
      return answering.slm
    },
    host: config.apiHost,
    port: config.apiPort,
    access: {
      keys: config.apiKeyFile === undefined ? undefined : readApiKeys(config.apiKeyFile),
      allowedHosts: config.apiAllowedHosts ?? [],
      allowedOrigins: config.apiAllowedOrigins,
    },
    maxBodyBytes: config.limits.apiBodyBytes,
    limits: apiLimits(config.limits.apiConnections),
    requestLimits: config.limits,
    embeddings,
    disclosures: (query) => disclosures.list(query),
    ...health,
    spending: () => budget.report,
    logger: logger.child({ component: 'api' }),
  })
  closers.push(api.close)
  return api
}

function apiLimits(count: number): HttpLimits {
  const connections = { total: count, perNetwork: count, waiting: count, firstRequestMs }
  // An answer may compute for minutes before its first byte.
  return { connections, requestMs, stalledMs: 0 }
}
