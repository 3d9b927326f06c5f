import type { AddressInfo } from 'node:net'
import { type FastifyInstance, type FastifyReply, fastify } from 'fastify'
import { type ApiRequest, readChatRequest, readCompletionRequest, type Served, unknownModel } from '../../core/api/request.ts'
import { type ServeOptions, serveAnswers } from '../../core/api/serve-answer.ts'
import { BrimError } from '../../core/base/errors.ts'
import { guardHttpListener, type HttpLimits, httpTimeLimits } from '../../core/listen/http-listener.ts'
import { chatFormat, completionFormat, type ResponseFormat } from '../../core/openai/responses.ts'
import { type ApiAccess, requireSafeAddress } from './access.ts'
import { addHealthRoutes, type HealthOptions } from './health.ts'
import { guardRequests, readJson, reportErrors, requestIdOf } from './http-rules.ts'

export interface ApiOptions extends Omit<ServeOptions, 'stopping' | 'model'>, Served, HealthOptions {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** Maximum size of a request. */
  readonly maxBodyBytes: number
  /** Absent: no limits. */
  readonly limits?: HttpLimits | undefined
  /** When the model was built: ISO 8601. */
  readonly createdAt: string
  readonly access: ApiAccess
}

export interface Api {
  /** http://host:port */
  readonly url: string
  /** Cancels answers in progress, then stops the server. */
  close(): Promise<void>
}

/**
 * OpenAI's API: /v1/chat/completions, /v1/completions, /v1/models; beside it /health and /ready.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { host, port, limits, access, clock, logger } = options
  requireSafeAddress(host, access)
  const stopping = new AbortController()
  const app = fastify({
    bodyLimit: options.maxBodyBytes,
    ...(limits && { http: httpTimeLimits(limits), requestTimeout: limits.requestMs }),
    forceCloseConnections: true,
    logger: false,
    genReqId: requestIdOf,
  })
  guardHttpListener(app.server, { limits, what: 'API', clock, logger })
  /** Answers whose endpoints may still hold memory. */
  const inProgress = new Set<Promise<void>>()
  guardRequests(app, access)
  reportErrors(app, logger)
  readJson(app, options.requestLimits.apiJsonValues)
  addHealthRoutes(app, options)
  addRoutes(app, options, (format, request, reply, id) => {
    const serving = { ...options, model: options.modelNames[0], stopping: stopping.signal }
    const answers = serveAnswers(serving, format, request, reply, id)
    inProgress.add(answers)
    return answers.finally(() => inProgress.delete(answers))
  })
  try {
    await app.listen({ host, port })
  } catch (cause) {
    await app.close()
    throw new BrimError('LISTEN_FAILED', `the API cannot listen on ${host}:${port}`, {
      cause,
      hint: 'choose another port with --api-port (0: a free one)',
    })
  }
  const { port: bound } = app.server.address() as AddressInfo
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
  logger.info({ url }, 'API listening')
  return {
    url,
    async close() {
      stopping.abort(new BrimError('CANCELED', 'the agent is shutting down'))
      await Promise.allSettled(inProgress)
      await app.close()
    },
  }
}

type Serve = (format: ResponseFormat, request: ApiRequest, reply: FastifyReply, requestId: string) => Promise<void>

function addRoutes(app: FastifyInstance, options: ApiOptions, serve: Serve): void {
  const modelOf = (id: string) => {
    const created = Math.floor(Date.parse(options.createdAt) / 1000)
    return { id, object: 'model', created, owned_by: 'brim' }
  }
  const routes = [
    { path: '/v1/chat/completions', read: readChatRequest, format: chatFormat },
    { path: '/v1/completions', read: readCompletionRequest, format: completionFormat },
  ]
  for (const { path, read, format } of routes) {
    app.post(path, async ({ body, headers, id }, reply) => {
      const request = read(body, options, headers.authorization)
      if (request.ignored.length > 0) reply.raw.setHeader('x-brim-ignored', headerOf(request.ignored))
      await serve(format, request, reply, id)
      return reply
    })
  }
  app.get('/v1/models', async () => ({ object: 'list', data: options.modelNames.map(modelOf) }))
  app.get<{ Params: { id: string } }>('/v1/models/:id', async ({ params: { id } }) => {
    const { modelNames } = options
    if (modelNames.includes(id)) return modelOf(id)
    throw unknownModel(id, modelNames[0])
  })
}

const maxNameLength = 64

/** Names as a header: what a header cannot hold becomes "?". */
const headerOf = (names: readonly string[]): string =>
  names.map((name) => name.slice(0, maxNameLength).replace(/[^\w.-]/g, '?')).join(', ')
