/** W3C Trace Context, level 1: https://www.w3.org/TR/trace-context/#traceparent-header */
export interface TraceContext {
  /** 32 hex digits. */
  readonly traceId: string
  /** 16 hex digits: the span that asks. */
  readonly spanId: string
  readonly traceFlags: number
}

/** @returns undefined where it is absent or invalid: a new trace begins then */
export function readTraceparent(header: unknown): TraceContext | undefined {
  const form = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
  const [, traceId, spanId, flags, rest] = (typeof header === 'string' ? form.exec(header) : undefined) ?? []
  // Only a later version may have more.
  if (traceId === undefined || spanId === undefined || (rest !== undefined && String(header).startsWith('00-'))) return undefined
  return { traceId, spanId, traceFlags: Number.parseInt(flags!, 16) }
}

export const writeTraceparent = ({ traceId, spanId, traceFlags }: TraceContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
