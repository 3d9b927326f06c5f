import type { AddressInfo } from 'node:net'
import { type FastifyInstance, type FastifyReply, fastify } from 'fastify'
import { BrimError } from '../../core/base/errors.ts'
import { jsonShapeProblem } from '../../core/base/json-shape.ts'
import type { Logger } from '../../core/base/logger.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { guardHttpListener, type HttpLimits, httpTimeLimits } from '../../core/listen/http-listener.ts'
import { statusOf, toErrorBody } from '../../core/openai/api-error.ts'
import { chatFormat, completionFormat, type ResponseFormat } from '../../core/openai/responses.ts'
import { rejectForeign } from './loopback.ts'
import { type ApiRequest, readChatRequest, readCompletionRequest, type Served, unknownModel } from './request.ts'
import { type ServeOptions, serveAnswer } from './serve-answer.ts'

export interface ApiOptions extends Omit<ServeOptions, 'stopping' | 'model'>, Served {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** Maximum size of a request. */
  readonly maxBodyBytes: number
  /** Absent: no limits. */
  readonly limits?: HttpLimits | undefined
  /** When the model was built: ISO 8601. */
  readonly createdAt: string
  /** Fields of /health beside `status`. */
  readonly health: () => object
}

export interface Api {
  /** http://host:port */
  readonly url: string
  /** Cancels answers in progress, then stops the server. */
  close(): Promise<void>
}

/**
 * OpenAI's API on loopback: /v1/chat/completions, /v1/completions, /v1/models, and /health.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { host, port, limits, clock, logger } = options
  if (!isLoopback(host))
    throw new BrimError('LISTEN_REFUSED', `the API does not listen on ${host}: its clients are not authenticated`, {
      hint: 'use 127.0.0.1; from another machine, use an SSH tunnel',
    })
  const stopping = new AbortController()
  const app = fastify({
    bodyLimit: options.maxBodyBytes,
    ...(limits && { http: httpTimeLimits(limits), requestTimeout: limits.requestMs }),
    forceCloseConnections: true,
    logger: false,
  })
  guardHttpListener(app.server, { limits, what: 'API', clock, logger })
  /** Answers whose endpoints may still hold memory. */
  const inProgress = new Set<Promise<void>>()
  guard(app, logger)
  readJson(app, options.requestLimits.apiJsonValues)
  addRoutes(app, options, (format, request, reply) => {
    const serving = { ...options, model: options.modelNames[0], stopping: stopping.signal }
    const answer = serveAnswer(serving, format, request, reply)
    inProgress.add(answer)
    return answer.finally(() => inProgress.delete(answer))
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

function guard(app: FastifyInstance, logger: Logger): void {
  app.addHook('onRequest', async (request, reply) => {
    const reason = rejectForeign(request.headers.host, request.headers.origin)
    if (reason === undefined) return
    const error = new BrimError('REQUEST_INVALID', reason, { hint: 'call the API by 127.0.0.1 or localhost' })
    await reply.code(403).send(toErrorBody(error))
  })
  app.setNotFoundHandler((request, reply) => {
    const error = new BrimError('REQUEST_INVALID', `unknown route ${request.method} ${request.url.split('?')[0]}`)
    return reply.code(404).send(toErrorBody(error))
  })
  app.setErrorHandler((thrown, request, reply) => {
    const status = httpStatusOf(thrown)
    const error = status < 500 && thrown instanceof Error && !(thrown instanceof BrimError) ? unreadable(thrown) : thrown
    if (status >= 500) logger.warn({ err: thrown, path: request.routeOptions.url }, 'request failed')
    // A stream that has begun reports its failure in an event.
    if (reply.sent) return
    if (thrown instanceof BrimError && thrown.retryAfterMs !== undefined)
      void reply.header('retry-after', Math.ceil(thrown.retryAfterMs / 1_000))
    return reply.code(status).send(toErrorBody(error))
  })
}

/** JSON only: browsers ask before they send JSON across sites, and do not for plain text. */
function readJson(app: FastifyInstance, maxValues: number): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, text, done) => {
    const problem = jsonShapeProblem(text, maxValues)
    if (problem === undefined) return parse(request, text, done)
    done(
      new BrimError('REQUEST_INVALID', `the body cannot be read: ${problem}`, {
        hint: 'send fewer values, or raise the limit apiJsonValues',
      }),
    )
  })
}

/** Fastify's own errors (no JSON, too large, wrong content type) have a status. */
function httpStatusOf(error: unknown): number {
  if (error instanceof BrimError || !(error instanceof Error) || !('statusCode' in error)) return statusOf(error)
  return typeof error.statusCode === 'number' ? error.statusCode : 500
}

const unreadable = (error: Error) => new BrimError('REQUEST_INVALID', error.message, { hint: 'send a JSON body' })

type Serve = (format: ResponseFormat, request: ApiRequest, reply: FastifyReply) => Promise<void>

function addRoutes(app: FastifyInstance, options: ApiOptions, serve: Serve): void {
  const { modelNames, createdAt } = options
  const [name] = modelNames
  const model = { id: name, object: 'model', created: Math.floor(Date.parse(createdAt) / 1000), owned_by: 'brim' }
  const routes = [
    { path: '/v1/chat/completions', read: readChatRequest, format: chatFormat },
    { path: '/v1/completions', read: readCompletionRequest, format: completionFormat },
  ]
  for (const { path, read, format } of routes) {
    app.post(path, async ({ body, headers }, reply) => {
      await serve(format, read(body, options, headers.authorization), reply)
      return reply
    })
  }
  app.get('/v1/models', async () => ({ object: 'list', data: [model] }))
  app.get<{ Params: { id: string } }>('/v1/models/:id', async ({ params: { id } }) => {
    if (modelNames.includes(id)) return model
    throw unknownModel(id, name)
  })
  app.get('/health', async () => ({ status: 'ok', ...options.health() }))
}
