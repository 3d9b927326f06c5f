import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}
interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly Attribute[]
  readonly status: { readonly code?: number; readonly message?: string }
}
interface OtlpTraces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

/** A span as it arrived, with the name of its service. */
export interface CollectedSpan extends Omit<OtlpSpan, 'attributes'> {
  readonly service: unknown
  readonly attributes: Readonly<Record<string, unknown>>
}

const valuesOf = (attributes: readonly Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** A collector of OpenTelemetry's traces on a free loopback port: OTLP over HTTP, as JSON. */
export async function startCollector() {
  const spans: CollectedSpan[] = []
  let text = ''
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as OtlpTraces
    if (request.url === '/v1/traces')
      for (const { resource, scopeSpans } of body.resourceSpans)
        for (const span of scopeSpans.flatMap((scope) => scope.spans))
          spans.push({ ...span, service: valuesOf(resource.attributes)['service.name'], attributes: valuesOf(span.attributes) })
    text += JSON.stringify(body)
    response.setHeader('content-type', 'application/json').end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    /** Everything that arrived. */
    get text() {
      return text
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
