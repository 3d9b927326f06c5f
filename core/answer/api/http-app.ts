import { createServer, type RequestListener, type Server } from 'node:http'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { Clock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { jsonShapeProblem } from '../../kit/base/json-shape.ts'
import type { Logger } from '../../kit/base/logger.ts'
import { sampledWarnings } from '../../kit/base/sampled-warnings.ts'
import { type HttpLimits, httpTimeLimits } from '../../kit/listen/http-listener.ts'
import { allowedMethods } from './allowed-methods.ts'
import { allowPage } from './cross-origin.ts'
import { unzippedBody } from './gzipped-body.ts'
import { errorReply, namedError, noSuchPath, ownError, RequestRefused } from './http-errors.ts'
import { requestIdOf } from './request-id.ts'

/** How an agent's and a bridge's HTTP differ. */
export interface HttpAppOptions {
  readonly server: 'agent' | 'bridge'
  /** Absent: no limits. */
  readonly limits: HttpLimits | undefined
  /** Absent: plain text. */
  readonly createServer?: (handler: RequestListener, limits: HttpLimits | undefined) => Server
  /** Of bodies, where a route names no other. */
  readonly maxBodyBytes?: number
  /** Names the paths where another one is asked for. Absent: nothing does. */
  readonly pathsHint?: string
  /** Of web pages that may call this server. Absent: none. */
  readonly origins?: readonly string[]
  /** @throws BrimError for a request that is refused before it is read */
  admit(request: FastifyRequest): void
  /** Whether the body is read, as JSON. Absent: that of every route is. Others are left to their route. */
  readsBody?(request: FastifyRequest): boolean
  statusOf(error: BrimError, request: FastifyRequest): number
  formOf(request: FastifyRequest): 'openai' | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** Longer than any URL that Node accepts: an unknown id of any length is unknown, not too long. */
const maxParamLength = 16 * 1024
/** In the JSON of a body: token ids and all fields. */
const maxJsonValues = 262_144
const jsonType = 'application/json'
export const sendJson = `send JSON (content-type: ${jsonType})`

/**
 * What every HTTP response of an agent and a bridge has in common: a request id, no caching, errors in one form, 404, 405 with the
 * allowed methods, HEAD as GET, and JSON that is bounded before it is parsed.
 */
export function createHttpApp(options: HttpAppOptions): FastifyInstance {
  const { server, limits, maxBodyBytes, logger, clock } = options
  const warn = sampledWarnings(logger, clock)

  function refuse(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const error = namedError(ownError(thrown, request.routeOptions.bodyLimit), server)
    const { status, headers, body } = errorReply(error, (own) => options.statusOf(own, request), options.formOf(request))
    if (!(error instanceof BrimError)) logger.error({ err: error, request: request.id }, 'HTTP request failed')
    else if (status >= 500) warn({ err: error, path: request.routeOptions.url, request: request.id }, 'request failed')
    // A stream that has begun.
    if (reply.raw.headersSent) reply.raw.destroy()
    else void reply.code(status).headers(headers).send(body)
  }

  const app = fastify({
    serverFactory: (handler) => (options.createServer ?? createPlainServer)(handler, limits),
    ...(maxBodyBytes === undefined ? {} : { bodyLimit: maxBodyBytes }),
    genReqId: requestIdOf,
    frameworkErrors: refuse,
    routerOptions: { maxParamLength },
  })
  const methodsOf = allowedMethods(app)
  app.setReplySerializer((body) => `${JSON.stringify(body)}\n`)
  app.setErrorHandler(refuse)
  app.setNotFoundHandler(({ url }) => {
    const allowed = methodsOf(url.split('?', 1)[0]!)
    if (allowed.length > 0) throw new RequestRefused(405, `this path takes ${allowed.join(', ')}`, { allowed })
    throw noSuchPath(options.pathsHint)
  })
  app.addHook('onRequest', async (request, reply) => {
    // Where streams find it too: they bypass Fastify.
    reply.raw.setHeader('x-request-id', request.id)
    void reply.header('cache-control', 'no-store')
    // Browsers send a type across sites without asking, unless it is that of JSON.
    if (request.method === 'POST') request.headers['content-type'] ??= jsonType
    if (allowPage(request, reply, options.origins ?? [])) return reply.code(204).send()
    options.admit(request)
  })
  readJson(app, options)
  return app
}

const createPlainServer = (handler: RequestListener, limits: HttpLimits | undefined): Server =>
  createServer(limits ? httpTimeLimits(limits) : {}, handler)

function readJson(app: FastifyInstance, { readsBody = () => true }: HttpAppOptions): void {
  // An object that names its own prototype is refused.
  const parse = app.getDefaultJsonParser('error', 'error')
  app.addHook('preParsing', async (request, _reply, payload) => (readsBody(request) ? unzippedBody(request, payload) : payload))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<string>(jsonType, { parseAs: 'string' }, (request, text, done) => {
    if (request.method === 'DELETE' || !readsBody(request)) return done(null, undefined)
    if (text === '') return done(invalid(sendJson))
    const problem = jsonShapeProblem(text, maxJsonValues)
    if (problem !== undefined) return done(invalid(`the body cannot be read: ${problem}`, 'send fewer values'))
    return parse(request, text, (error, value) => (error ? done(invalid('the body is not JSON')) : done(null, value)))
  })
  app.addContentTypeParser('*', (request, _payload, done) =>
    done(readsBody(request) ? new RequestRefused(415, sendJson) : null, undefined),
  )
}

const invalid = (message: string, hint?: string) => new BrimError('REQUEST_INVALID', message, { hint })
