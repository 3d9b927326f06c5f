import type { Attributes } from '@opentelemetry/api'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import type { Clock } from '../base/clock.ts'
import type { Closers } from '../base/closers.ts'
import { BrimError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { sampledWarnings } from '../base/sampled-warnings.ts'
import { shownUrl } from '../base/shown-url.ts'
import { version } from '../base/version.ts'
import { withTimeout } from '../base/with-timeout.ts'
import { readTraceparent, writeTraceparent } from './trace-context.ts'
import { passingTracer, type Tracer } from './tracer.ts'

/** Time for the last spans to be sent. */
const closeMs = 2_000

export interface TracerOptions {
  /** Base URL of a collector, as OTEL_EXPORTER_OTLP_ENDPOINT; undefined: none. */
  readonly endpoint: string | undefined
  readonly service: 'brim-agent' | 'brim-bridge'
  /** Id of the device or the bridge. */
  readonly instance: string
  readonly clock: Clock
  readonly closers: Closers
  readonly logger: Logger
}

/**
 * Exports spans by OTLP over HTTP, with OpenTelemetry's packages, which are loaded only then. Of their variables of the environment,
 * OTEL_EXPORTER_OTLP_HEADERS and OTEL_BSP_* hold.
 * @throws BrimError PREREQUISITE_MISSING
 */
export async function openTracer({ endpoint, service, instance, clock, closers, logger }: TracerOptions): Promise<Tracer> {
  if (endpoint === undefined) return passingTracer
  const { api, sdk, resources, exporters } = await loadPackages()
  const warn = sampledWarnings(logger, clock)
  const exporter = new exporters.OTLPTraceExporter({ url: `${endpoint.replace(/\/$/, '')}/v1/traces` })
  const logged: SpanExporter = {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.code !== 0)
          warn({ endpoint: shownUrl(endpoint), err: result.error, spans: spans.length }, 'spans not exported')
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
  }
  const provider = new sdk.TracerProvider({
    resource: resources.resourceFromAttributes({
      'service.name': service,
      'service.instance.id': instance,
      'service.version': version,
    }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: logged })],
  })
  const tracer = provider.getTracer('brim', version)
  const opened: Tracer = {
    begin(name, parent, attributes = {}) {
      const context = readTraceparent(parent)
      const within = context ? api.trace.setSpanContext(api.ROOT_CONTEXT, { ...context, isRemote: true }) : api.ROOT_CONTEXT
      const span = tracer.startSpan(name, { kind: api.SpanKind.SERVER, attributes: attributes as Attributes }, within)
      const own = span.spanContext()
      return {
        traceparent: writeTraceparent(own),
        traceId: own.traceId,
        end(more = {}, error) {
          span.setAttributes(more as Attributes)
          if (error !== undefined) {
            const { code } = error as { code?: unknown }
            const type = typeof code === 'string' ? code : 'INTERNAL'
            span.setAttribute('error.type', type)
            span.setStatus({ code: api.SpanStatusCode.ERROR, message: type })
          }
          span.end()
        },
      }
    },
    // A collector that does not respond must not delay the end.
    close: async () => void (await withTimeout(closeMs, provider.shutdown(), clock).catch(() => {})),
  }
  closers.push(opened.close)
  return opened
}

async function loadPackages() {
  try {
    const [api, sdk, resources, exporters] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/exporter-trace-otlp-http'),
    ])
    return { api, sdk, resources, exporters }
  } catch (cause) {
    throw new BrimError('PREREQUISITE_MISSING', "OpenTelemetry's packages are not installed, which export traces", {
      cause,
      hint: 'install Brim with its optional packages, or run it without --otlp-endpoint and OTEL_EXPORTER_OTLP_ENDPOINT',
    })
  }
}
