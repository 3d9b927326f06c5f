import type { Io } from '../../core/kit/base/io.ts'

export interface CaptureOptions {
  readonly signal?: AbortSignal
  readonly env?: Record<string, string>
  readonly stdin?: string
}

/** An Io that records the output of a command. */
export function captureIo(options: CaptureOptions = {}): {
  io: Io
  out: () => string
  err: () => string
} {
  const out: string[] = []
  const err: string[] = []
  const line = (text: string) => (text.endsWith('\n') ? text : `${text}\n`)
  const io: Io = {
    out: (text) => out.push(line(text)),
    write: (text) => out.push(text),
    err: (text) => err.push(line(text)),
    raw: { out: (text) => out.push(text), err: (text) => err.push(text) },
    stdin: async () => options.stdin ?? '',
    outIsTty: false,
    errIsTty: false,
    env: options.env ?? {},
    signal: options.signal ?? new AbortController().signal,
  }
  return { io, out: () => out.join(''), err: () => err.join('') }
}
