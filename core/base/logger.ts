import { destination, type Logger, multistream, pino } from 'pino'

export type { Logger }

/** Another reader of the log, beside stderr. */
export interface LogTap {
  /** pino's number of the level from which on it wants lines, whatever stderr gets; may change. */
  readonly minLevel: number
  /** One line, as it would be on stderr: JSON, secrets redacted. */
  write(line: string): void
}

/**
 * JSON lines on stderr; prompts, completions and credentials never enter a log line.
 * @param onError is told of every error that is logged, as `err`, at this level or above
 */
export function createLogger(
  level: string,
  context: Record<string, unknown> = {},
  onError: (error: unknown) => void = () => {},
  tap?: LogTap,
): Logger {
  const stderr = destination({ fd: 2, sync: true })
  const least = pino.levels.values[level] ?? Number.POSITIVE_INFINITY
  return pino(
    {
      level: tap ? 'debug' : level,
      base: context,
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: {
        logMethod(args, method, number) {
          // Before a line is made that nobody wants.
          if (number < Math.min(least, tap?.minLevel ?? number)) return
          const [data] = args as unknown[]
          if (number >= least && typeof data === 'object' && data !== null && 'err' in data) onError(data.err)
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
