import { destination, type Logger, multistream, pino } from 'pino'
import { visibleText } from './visible-text.ts'

export type { Logger }

/** A second destination of the log, beside stderr. */
export interface LogTap {
  /** pino's number of the lowest level that it receives; may change at any time. */
  readonly minLevel: number
  /** Receives one line of JSON, with secrets redacted. */
  write(line: string): void
}

/**
 * A logger of JSON lines on stderr. Log lines never contain prompts, completions or credentials.
 * @param onError receives every `err` that is logged at `level` or above
 */
export function createLogger(
  level: string,
  context: Record<string, unknown> = {},
  onError: (error: unknown) => void = () => {},
  tap?: LogTap,
): Logger {
  const lines = destination({ fd: 2, sync: true })
  // A log line may name a client by the id that it chose.
  const stderr = { write: (line: string) => lines.write(visibleText(line)) }
  const minLevel = pino.levels.values[level] ?? Number.POSITIVE_INFINITY
  return pino(
    {
      level: tap ? 'debug' : level,
      base: context,
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: {
        logMethod(args, method, number) {
          // Saves the cost of formatting a line that no destination receives.
          if (number < Math.min(minLevel, tap?.minLevel ?? number)) return
          const [data] = args as unknown[]
          if (number >= minLevel && typeof data === 'object' && data !== null && 'err' in data) onError(data.err)
          method.apply(this, args)
        },
      },
      redact: ['*.token', '*.password', '*.authorization', 'token', 'password'],
    },
    tap
      ? multistream([
          { level: level as 'info', stream: stderr },
          { level: 'debug', stream: tap },
        ])
      : stderr,
  )
}
