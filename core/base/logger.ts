import { destination, type Logger, pino } from 'pino'

export type { Logger }

/**
 * JSON lines on stderr; prompts, completions and credentials never enter a log line.
 * @param onError is told of every error that is logged, as `err`, at this level or above
 */
export function createLogger(
  level: string,
  context: Record<string, unknown> = {},
  onError: (error: unknown) => void = () => {},
): Logger {
  return pino(
    {
      level,
      base: context,
      timestamp: pino.stdTimeFunctions.isoTime,
      hooks: {
        logMethod(args, method) {
          const [data] = args as unknown[]
          if (typeof data === 'object' && data !== null && 'err' in data) onError(data.err)
          method.apply(this, args)
        },
      },
      redact: ['*.token', '*.password', '*.authorization', 'token', 'password'],
    },
    destination({ fd: 2, sync: true }),
  )
}
