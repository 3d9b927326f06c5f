import type { FastifyReply, FastifyRequest } from 'fastify'

/** What a page may read of an answer beside its body. */
const readable = 'x-request-id, x-brim-ignored, retry-after'

/**
 * Lets pages of these origins, and no others, read what they ask for (CORS). Raw headers: streams bypass Fastify.
 * @returns whether the request only asks if the page may send another one: then the answer is ready
 */
export function allowPage({ method, headers }: FastifyRequest, { raw }: FastifyReply, origins: readonly string[]): boolean {
  const { origin } = headers
  if (origins.length > 0) raw.setHeader('vary', 'origin')
  if (origin === undefined || !origins.includes(origin)) return false
  raw.setHeader('access-control-allow-origin', origin)
  raw.setHeader('access-control-expose-headers', readable)
  const asked = headers['access-control-request-method']
  if (method !== 'OPTIONS' || asked === undefined) return false
  raw.setHeader('access-control-allow-methods', 'GET, HEAD, POST, DELETE')
  // Of a page that may call the API it does not matter which: SDKs add some of their own.
  raw.setHeader('access-control-allow-headers', headers['access-control-request-headers'] ?? 'authorization, content-type')
  raw.setHeader('access-control-max-age', '600')
  return true
}
