import type { AddressInfo } from 'node:net'
import { type FastifyInstance, fastify } from 'fastify'
import { BrimError } from '../../core/base/errors.ts'
import { isLoopback } from '../../core/base/loopback.ts'
import { FieldError, statusOf, toApiError } from '../../core/openai/api-error.ts'
import { chatShape, completionShape } from '../../core/openai/responses.ts'
import { refuseStranger } from './loopback.ts'
import { type RequestContext, readChatRequest, readCompletionRequest } from './request.ts'
import { type ServeOptions, serveAnswer } from './serve-answer.ts'

const maxBodyBytes = 8 * 2 ** 20

export interface ApiOptions extends Omit<ServeOptions, 'stopping' | 'model'>, RequestContext {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** What /health tells beside `status`. */
  readonly health: () => object
}

export interface Api {
  /** http://host:port */
  readonly url: string
  /** Stops answers under way, then the server. */
  close(): Promise<void>
}

/**
 * OpenAI's API on loopback: /v1/chat/completions, /v1/completions, /v1/models, and /health.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { host, port, logger } = options
  if (!isLoopback(host))
    throw new BrimError('LISTEN_REFUSED', `the API does not listen on ${host}: whoever connects is not authenticated`, {
      hint: 'use 127.0.0.1; from another machine, go through an SSH tunnel',
    })
  const stopping = new AbortController()
  const app = fastify({ bodyLimit: maxBodyBytes, forceCloseConnections: true, logger: false })
  /** Answers whose sessions still hold KV. */
  const underWay = new Set<Promise<void>>()
  guard(app, options)
  addRoutes(
    app,
    options,
    (answer) => {
      underWay.add(answer)
      return answer.finally(() => underWay.delete(answer))
    },
    stopping.signal,
  )
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
      await Promise.allSettled(underWay)
      await app.close()
    },
  }
}

function guard(app: FastifyInstance, { logger }: ApiOptions): void {
  // JSON alone: it is what makes a browser ask before it sends anything across sites.
  app.removeContentTypeParser('text/plain')
  app.addHook('onRequest', async (request, reply) => {
    const stranger = refuseStranger(request.headers.host, request.headers.origin)
    if (stranger === undefined) return
    const error = new BrimError('REQUEST_INVALID', stranger, { hint: 'call the API by 127.0.0.1 or localhost' })
    await reply.code(403).send(toApiError(error))
  })
  app.setNotFoundHandler((request, reply) => {
    const error = new BrimError('REQUEST_INVALID', `there is no ${request.method} ${request.url.split('?')[0]}`)
    return reply.code(404).send(toApiError(error))
  })
  app.setErrorHandler((thrown, request, reply) => {
    const status = httpStatusOf(thrown)
    const error = status < 500 && thrown instanceof Error && !(thrown instanceof BrimError) ? unreadable(thrown) : thrown
    if (status >= 500) logger.warn({ err: thrown, path: request.routeOptions.url }, 'request failed')
    // A stream that has begun has told its reader already.
    if (reply.sent) return
    if (thrown instanceof BrimError && thrown.retryAfterMs !== undefined)
      void reply.header('retry-after', Math.ceil(thrown.retryAfterMs / 1_000))
    return reply.code(status).send(toApiError(error))
  })
}

/** Fastify's own errors (no JSON, too large, wrong type) bring their status. */
function httpStatusOf(error: unknown): number {
  if (error instanceof BrimError || !(error instanceof Error) || !('statusCode' in error)) return statusOf(error)
  return typeof error.statusCode === 'number' ? error.statusCode : 500
}

const unreadable = (error: Error) => new BrimError('REQUEST_INVALID', error.message, { hint: 'send a JSON body' })

function addRoutes(
  app: FastifyInstance,
  options: ApiOptions,
  track: (answer: Promise<void>) => Promise<void>,
  stopping: AbortSignal,
): void {
  const { clock, modelNames, manifest } = options
  const [name = manifest.card.name] = modelNames
  const serving: ServeOptions = { ...options, model: name, stopping }
  const created = Math.floor(Date.parse(manifest.card.createdAt) / 1000)
  const model = { id: name, object: 'model', created, owned_by: 'brim' }

  const contextOf = (authorization: string | undefined) => ({ ...options, authorization })

  app.post('/v1/chat/completions', async (request, reply) => {
    const acceptedMs = clock.nowMs()
    await track(
      serveAnswer(serving, chatShape, readChatRequest(request.body, contextOf(request.headers.authorization)), reply, acceptedMs),
    )
    return reply
  })
  app.post('/v1/completions', async (request, reply) => {
    const acceptedMs = clock.nowMs()
    await track(
      serveAnswer(
        serving,
        completionShape,
        readCompletionRequest(request.body, contextOf(request.headers.authorization)),
        reply,
        acceptedMs,
      ),
    )
    return reply
  })
  app.get('/v1/models', async () => ({ object: 'list', data: [model] }))
  app.get<{ Params: { id: string } }>('/v1/models/:id', async (request) => {
    if (modelNames.includes(request.params.id)) return model
    throw new FieldError('MODEL_UNKNOWN', 'model', `there is no model "${request.params.id}" here`, `this agent runs "${name}"`)
  })
  app.get('/health', async () => ({ status: 'ok', ...options.health() }))
}
