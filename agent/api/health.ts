import type { FastifyInstance } from 'fastify'
import type { BrimError } from '../../core/kit/base/errors.ts'
import { parseRequest } from '../../core/wire/openai/request.ts'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'
import { type DisclosureList, DisclosureQuery } from '../../core/wire/protocol/disclosures.ts'
import type { Spending } from '../../core/wire/protocol/spending.ts'
import type { AgentMetrics } from '../metrics/agent-metrics.ts'

export interface HealthOptions {
  /** Fields of /health beside `status` and `reasons`. */
  readonly health: () => object
  /** Why a request would fail now. */
  readonly problems: () => readonly BrimError[]
  readonly metrics: AgentMetrics
  /** What answers have cost. */
  readonly spending: () => Spending
  /** What has left the device: the last entries, in their order. */
  disclosures(query: { readonly after: number; readonly sinceMs: number; readonly limit: number }): DisclosureList
  /** What the device measures of itself; undefined before the first sample. */
  readonly condition: () => DeviceCondition | undefined
}

/**
 * /health describes the agent, with status 200 as long as it runs. /ready is for orchestrators: 503 while requests would fail. It
 * needs no key and no allowed Host, and tells only codes. /budget is what answers have cost, /v1/disclosures what has left for them,
 * /condition the device's latest sample of itself, /metrics what Prometheus reads.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  { health, problems, metrics, spending, disclosures, condition }: HealthOptions,
): void {
  app.get('/health', async () => {
    const reasons = problems().map(({ code, message, hint = null }) => ({ code, message, hint }))
    return { status: reasons.length === 0 ? 'ok' : 'degraded', reasons, ...health() }
  })
  app.get(metricsPath, async (_, reply) =>
    reply
      .type('text/plain; version=0.0.4; charset=utf-8')
      .serializer(String)
      .send(await metrics.text()),
  )
  app.get(budgetPath, async () => spending())
  app.get(disclosuresPath, async ({ query }) => {
    const { since, ...rest } = parseRequest(DisclosureQuery, query)
    return disclosures({ ...rest, sinceMs: since === undefined ? 0 : Date.parse(since) })
  })
  app.get(conditionPath, async () => ({ condition: condition() ?? null }))
  app.get(readyPath, async (_, reply) => {
    const reasons = problems().map(({ code }) => code)
    const isReady = reasons.length === 0
    return reply.code(isReady ? 200 : 503).send({ status: isReady ? 'ready' : 'not ready', reasons })
  })
}

export const readyPath = '/ready'
export const budgetPath = '/budget'
export const disclosuresPath = '/v1/disclosures'
export const conditionPath = '/condition'
export const metricsPath = '/metrics'
