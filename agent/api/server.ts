import { once } from 'node:events'
import { answerPaths } from '../../core/answer/api/answer-paths.ts'
import { AnswersInProgress } from '../../core/answer/api/answers-in-progress.ts'
import { createHttpApp } from '../../core/answer/api/http-app.ts'
import { KeptResponses } from '../../core/answer/api/kept-responses.ts'
import { deleteResponse, keptResponse } from '../../core/answer/api/read-responses.ts'
import { type ServeOptions, serveAnswers } from '../../core/answer/api/serve-answer.ts'
import { modelCard, modelCards, type Served } from '../../core/answer/api/served.ts'
import type { Embeddings } from '../../core/answer/embeddings/embeddings.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { guardHttpListener, type HttpLimits } from '../../core/kit/listen/http-listener.ts'
import { listen, urlHost } from '../../core/kit/listen/listen.ts'
import { statusOf } from '../../core/wire/openai/api-error.ts'
import { type ApiAccess, rejectionOf, requireSafeAddress } from './access.ts'
import {
  addHealthRoutes,
  budgetPath,
  conditionPath,
  disclosuresPath,
  type HealthOptions,
  metricsPath,
  readyPath,
} from './health.ts'
import { addPageRoutes, pagePaths } from './page.ts'

export interface ApiOptions extends Omit<ServeOptions, 'stopping' | 'parallel'>, Served, HealthOptions {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  readonly embeddings: Embeddings
  /** Maximum size of a request. */
  readonly maxBodyBytes: number
  /** Absent: no limits. */
  readonly limits?: HttpLimits | undefined
  readonly access: ApiAccess
}

export interface Api {
  /** http://host:port */
  readonly url: string
  /** Refuses new requests. @returns resolves when no answer is in progress */
  drain(): Promise<void>
  /** Cancels answers in progress, then stops the server. */
  close(): Promise<void>
}

/**
 * OpenAI's API: /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/models; beside it /v1/disclosures, /health,
 * /budget, /condition, /metrics and /ready, and the page at /.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { host, port, limits, access, maxBodyBytes, clock, logger } = options
  requireSafeAddress(host, access)
  const stopping = new AbortController()
  // Not all options: the models may be missing now, and change.
  const app = createHttpApp({
    server: 'agent',
    limits,
    maxBodyBytes,
    clock,
    logger,
    origins: access.allowedOrigins ?? [],
    pathsHint: `this API has POST /v1/chat/completions, /v1/completions, /v1/responses and /v1/embeddings, GET /v1/models, ${disclosuresPath}, /health, ${budgetPath}, ${conditionPath}, ${metricsPath} and ${readyPath}`,
    admit({ headers, routeOptions: { url = '' } }) {
      const isPage = pagePaths.includes(url)
      const error = url === readyPath ? undefined : rejectionOf(headers, isPage ? { ...access, keys: undefined } : access)
      if (error) throw error
    },
    statusOf,
    formOf: () => 'openai',
  })
  guardHttpListener(app.server, { limits, what: 'API', clock, logger })
  addPageRoutes(app, access.keys !== undefined)
  /** Answers whose endpoints may still hold memory. */
  const inProgress = new AnswersInProgress('this agent')
  const { health, metrics, spending, disclosures, condition, problems } = options
  addHealthRoutes(app, {
    health: () => ({ ...health(), answersInProgress: inProgress.count }),
    metrics,
    spending,
    disclosures,
    condition,
    problems: () => [...(inProgress.problem ? [inProgress.problem] : []), ...problems()],
  })
  // One after the other: on a device, each of them would slow the others down.
  const { meter, tracer } = options
  const serving = { clock, meter, logger, tracer, parallel: false, stopping: stopping.signal }
  const kept = new KeptResponses(clock)
  for (const { path, read } of answerPaths(kept))
    app.post(path, async ({ body, headers, id }, reply) => {
      const { authorization = '', 'x-brim-tokens-per-s': tokensPerS } = headers
      const { request, format } = read(body, options, { client: authorization, tokensPerS })
      await inProgress.run(() => serveAnswers(serving, format, request, reply, id))
      return reply
    })
  app.post('/v1/embeddings', ({ body, headers: { authorization = '' } }, reply) =>
    options.embeddings.respond(body, authorization, reply, stopping.signal),
  )
  type OneResponse = { Params: { id: string }; Querystring: { stream?: string } }
  app.get<OneResponse>('/v1/responses/:id', async ({ params: { id }, query: { stream }, headers: { authorization = '' } }) =>
    keptResponse(kept, authorization, id, stream),
  )
  app.delete<OneResponse>('/v1/responses/:id', async ({ params: { id }, headers: { authorization = '' } }) =>
    deleteResponse(kept, authorization, id),
  )
  /** A device may embed texts, and have no model for answers. */
  const answering = () => {
    try {
      return modelCards(options)
    } catch (error) {
      if (options.embeddings.cards.length === 0) throw error
      return []
    }
  }
  app.get('/v1/models', async () => ({ object: 'list', data: [...answering(), ...options.embeddings.cards] }))
  app.get<{ Params: { id: string } }>('/v1/models/:id', async ({ params: { id } }) => modelCard(id, options))
  await app.ready()
  const bound = await listen(app.server, { host, port, what: 'API', flag: '--api-port', authRequired: true })
  const url = `http://${urlHost(host)}:${bound}`
  logger.info({ url }, 'API listening')
  return {
    url,
    drain: () => inProgress.drain(),
    async close() {
      stopping.abort(new BrimError('CANCELED', 'the agent is shutting down'))
      await inProgress.drain()
      await kept.close()
      const closed = once(app.server, 'close')
      app.server.close()
      app.server.closeAllConnections()
      await closed
      await app.close()
    },
  }
}
