import type { FastifyInstance } from 'fastify'
import { allowedMethods } from '../../core/api/allowed-methods.ts'
import { BrimError } from '../../core/base/errors.ts'
import { jsonShapeProblem } from '../../core/base/json-shape.ts'
import type { Logger } from '../../core/base/logger.ts'
import { statusOf, toErrorBody } from '../../core/openai/api-error.ts'
import { type ApiAccess, rejectionOf } from './access.ts'
import { budgetPath, readyPath } from './health.ts'

const jsonType = 'application/json'

/** Who is served, and what every response has. */
export function guardRequests(app: FastifyInstance, access: ApiAccess): void {
  app.addHook('onRequest', async (request, reply) => {
    // Set where streams find it too: they bypass Fastify.
    reply.raw.setHeader('x-request-id', request.id)
    const { headers, method, routeOptions } = request
    if (method === 'POST') headers['content-type'] ??= jsonType
    const error = routeOptions.url === readyPath ? undefined : rejectionOf(headers, access)
    if (error?.code === 'API_KEY_INVALID') reply.header('www-authenticate', 'Bearer')
    if (error) await reply.code(error.code === 'API_KEY_INVALID' ? 401 : 403).send(toErrorBody(error))
  })
}

/** Before the routes of the API. */
export function reportErrors(app: FastifyInstance, logger: Logger): void {
  const methodsOf = allowedMethods(app)
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0]!
    const allowed = methodsOf(path)
    if (allowed.length > 0) {
      const error = new BrimError('REQUEST_INVALID', `${path} takes ${allowed.join(', ')}`)
      return reply.code(405).header('allow', allowed.join(', ')).send(toErrorBody(error, 405))
    }
    const error = new BrimError('REQUEST_INVALID', `unknown route ${request.method} ${path}`, {
      hint: `this API has POST /v1/chat/completions and /v1/completions, GET /v1/models, /health, ${budgetPath} and ${readyPath}`,
    })
    return reply.code(404).send(toErrorBody(error, 404))
  })
  app.setErrorHandler((thrown, request, reply) => {
    const status = httpStatusOf(thrown)
    const error = status < 500 && thrown instanceof Error && !(thrown instanceof BrimError) ? unreadable(thrown) : thrown
    if (status >= 500) logger.warn({ err: thrown, path: request.routeOptions.url, request: request.id }, 'request failed')
    // A stream that has begun reports its failure in an event.
    if (reply.sent) return
    if (thrown instanceof BrimError && thrown.retryAfterMs !== undefined)
      void reply.header('retry-after', Math.ceil(thrown.retryAfterMs / 1_000))
    return reply.code(status).send(toErrorBody(error))
  })
}

/** JSON only, also where a request does not name its type. Browsers send other types across sites without asking. */
export function readJson(app: FastifyInstance, maxValues: number): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<string>(jsonType, { parseAs: 'string' }, (request, text, done) => {
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

const unreadable = (error: Error) =>
  new BrimError('REQUEST_INVALID', error.message, { hint: `send a JSON body, with content-type: ${jsonType}` })
