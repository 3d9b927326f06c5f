import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { sendJson } from '../../core/answer/api/http-app.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { networkOf } from '../../core/kit/listen/network.ts'
import type { Proxies } from '../../core/kit/listen/proxies.ts'
import type { BodyOf, Operation, ParamsOf, QueryOf, ResponseOf } from '../../core/wire/protocol/http/operation.ts'
import { type Authorizer, type Caller, clientClosedRequest } from '../identity/authorizer.ts'
import { invalidRequest } from './errors.ts'
import type { EventSource, EventStreams } from './event-streams.ts'

/** Most bodies are small. */
const usualBodyBytes = 16 * 1024

/** A request that has been authorized and validated. */
export interface RouteRequest<O extends Operation> {
  readonly params: ParamsOf<O>
  readonly query: QueryOf<O>
  readonly body: BodyOf<O>
  readonly headers: IncomingHttpHeaders
  /** Address of the client. */
  readonly from: string
  readonly caller: Caller
  /** Aborted when the client disconnects or the server stops. */
  readonly closed: AbortSignal
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal
  /** As in the header x-request-id. */
  readonly id: string
  /** For a handler that responds in its own way, and returns an OwnResponse. */
  readonly reply: FastifyReply
  readonly acceptsEvents: boolean
  /**
   * The response is a stream of server-sent events.
   * @throws BrimError QUOTA_EXCEEDED when this client has too many open
   */
  events(source: EventSource): StreamResponse
}

/** A response that is not JSON: `send` writes status, headers and body itself. */
export class StreamResponse {
  readonly send: (response: ServerResponse) => void

  constructor(send: StreamResponse['send']) {
    this.send = send
  }
}

/** The handler has used `reply` itself. A reply cannot be returned: to await it is to wait for the end of the response. */
export class OwnResponse {
  readonly kind = 'own'
}

type DeepReadonly<T> = T extends (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T

type Result<O extends Operation> = DeepReadonly<ResponseOf<O>> | StreamResponse | OwnResponse

/** Serves operations. The routes of one area of the API are a function of this. */
export interface Router {
  /** What the handler throws is the response. */
  serve<O extends Operation, const R extends Result<O>>(operation: O, handler: (request: RouteRequest<O>) => R | Promise<R>): void
}
export type Routes = (router: Router) => void

export interface RouterOptions {
  readonly authorize: Authorizer['authorize']
  /** As of `HttpOptions`. */
  readonly stored?: (() => Promise<void>) | undefined
  readonly streams: EventStreams
  readonly proxies: Proxies
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal
}

export function createRouter(app: FastifyInstance, options: RouterOptions): Router {
  const { authorize, stored, streams, proxies, stopping } = options
  const callers = new WeakMap<FastifyRequest, Caller>()
  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => (data: unknown) => {
    if (httpPart === 'body' && data === null) return { error: new BrimError('REQUEST_INVALID', sendJson) }
    const parsed = schema.safeParse(data)
    const whole = httpPart === 'body' ? 'the body' : 'the query'
    return parsed.success ? { value: parsed.data } : { error: invalidRequest(parsed.error, whole) }
  })
  function begin(request: FastifyRequest, reply: FastifyReply, operation: Operation): void {
    const caller = authorize(request.raw, operation)
    callers.set(request, caller)
    caller.onRevoked(() => reply.raw.destroy())
    reply.raw.once('close', () => caller.end(reply.raw.headersSent ? reply.raw.statusCode : clientClosedRequest))
  }

  function routeRequest<O extends Operation>(request: FastifyRequest, reply: FastifyReply): RouteRequest<O> {
    return {
      params: request.params as ParamsOf<O>,
      query: request.query as QueryOf<O>,
      body: request.body as BodyOf<O>,
      headers: request.headers,
      from: proxies.clientOf(request.raw),
      caller: callers.get(request)!,
      // Made on demand: `stopping` outlives the request, and most handlers do not wait.
      get closed() {
        const left = new AbortController()
        reply.raw.once('close', () => left.abort())
        return AbortSignal.any([left.signal, stopping])
      },
      stopping,
      id: request.id,
      reply,
      acceptsEvents: request.headers.accept?.includes('text/event-stream') === true,
      events(source) {
        // By API key, or by the network of a client without one.
        streams.claim(reply.raw, callers.get(request)?.key?.id ?? networkOf(proxies.clientOf(request.raw)))
        return new StreamResponse((response) => streams.send(response, source))
      },
    }
  }

  return {
    serve(operation, handler) {
      const { method, path, query, body, maxBodyBytes = usualBodyBytes, status = 200, errors } = operation
      app.route({
        method,
        url: path,
        bodyLimit: maxBodyBytes,
        config: { errors },
        schema: { ...(query && { querystring: query }), ...(body && { body }) },
        onRequest: async (request, reply) => begin(request, reply, operation),
        handler: async (request, reply) => {
          const result = await Promise.resolve(handler(routeRequest(request, reply))).catch(async (error: unknown) => {
            // A refusal may be stored, too.
            await stored?.()
            throw error
          })
          if (result instanceof OwnResponse) return reply
          if (!(result instanceof StreamResponse)) {
            await stored?.()
            return reply.code(status).send(result)
          }
          await stored?.()
          reply.hijack()
          result.send(reply.raw)
        },
      })
    },
  }
}
