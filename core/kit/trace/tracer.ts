import { readTraceparent } from './trace-context.ts'

/** By the names of OpenTelemetry's semantic conventions, and ours beside them (`brim.…`). Never text of prompts or answers. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

/** Work on a request, between its beginning and its end. */
export interface Span {
  /** The header, or field, of what this work asks of others; undefined: the request is not traced. */
  readonly traceparent: string | undefined
  /** Of the trace, for the log. */
  readonly traceId: string | undefined
  /** @param error why the work failed */
  end(attributes?: SpanAttributes, error?: unknown): void
}

/** Begins spans of requests that others have sent. */
export interface Tracer {
  /** @param parent `traceparent` of the request; absent or invalid: a new trace */
  begin(name: string, parent: unknown, attributes?: SpanAttributes): Span
  /** Sends what has not been sent. Never throws. */
  close(): Promise<void>
}

/** Of a process that exports no spans: it hands the request's `traceparent` on as it is. */
export const passingTracer: Tracer = {
  begin(_name, parent) {
    const traceId = readTraceparent(parent)?.traceId
    return { traceparent: traceId === undefined ? undefined : String(parent), traceId, end() {} }
  },
  async close() {},
}
