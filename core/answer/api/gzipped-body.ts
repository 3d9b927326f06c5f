import { type Readable, Transform } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { FastifyRequest, RequestPayload } from 'fastify'
import { RequestRefused } from './http-errors.ts'

/**
 * The body as it was before its client compressed it; no more of it is unpacked than a body may be long.
 * @throws RequestRefused 415 for another encoding
 */
export function unzippedBody({ headers, routeOptions }: FastifyRequest, payload: RequestPayload): RequestPayload {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity') return payload
  if (encoding !== 'gzip' && encoding !== 'x-gzip')
    throw new RequestRefused(415, `bodies encoded as ${encoding} are not read`, { hint: 'send it with gzip, or as it is' })
  return gunzip(payload, routeOptions.bodyLimit)
}

function gunzip(payload: RequestPayload, maxBytes: number): RequestPayload {
  const unzip = createGunzip()
  let bytes = 0
  const body: Transform & { receivedEncodedLength?: number } = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      done(bytes > maxBytes ? new RequestRefused(413, `the body is longer than ${maxBytes} bytes`) : null, chunk)
    },
  })
  // Fastify compares it with the length that the client announced.
  body.receivedEncodedLength = 0
  payload.on('data', (chunk: Buffer) => {
    body.receivedEncodedLength! += chunk.length
  })
  payload.on('error', (error) => body.destroy(error))
  unzip.on('error', () => body.destroy(new RequestRefused(400, 'the body is not gzip, as its content-encoding says')))
  body.on('error', () => {
    payload.unpipe(unzip)
    unzip.destroy()
    // The client is still sending: it gets the answer once it has.
    ;(payload as Readable).resume()
  })
  return payload.pipe(unzip).pipe(body)
}
