import type { FastifyInstance } from 'fastify'
import type { BrimError } from '../../core/kit/base/errors.ts'
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
}

/**
 * /health describes the agent, with status 200 as long as it runs. /ready is for orchestrators: 503 while requests would fail. It
 * needs no key and no allowed Host, and tells only codes. /budget is what answers have cost,
 * /metrics what Prometheus reads.
 */
export function addHealthRoutes(app: FastifyInstance, { health, problems, metrics, spending }: HealthOptions): void {
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
  app.get(readyPath, async (_, reply) => {
    const reasons = problems().map(({ code }) => code)
    const isReady = reasons.length === 0
    return reply.code(isReady ? 200 : 503).send({ status: isReady ? 'ready' : 'not ready', reasons })
  })
}

export const readyPath = '/ready'
export const budgetPath = '/budget'
export const metricsPath = '/metrics'
