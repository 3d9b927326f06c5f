import { destination, type Logger, pino } from 'pino'

export type { Logger }

/** JSON lines on stderr; prompts, completions and credentials never enter a log line. */
export function createLogger(level: string, context: Record<string, unknown> = {}): Logger {
  return pino(
    {
      level,
      base: context,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: ['*.token', '*.password', '*.authorization', 'token', 'password'],
    },
    destination({ fd: 2, sync: true }),
  )
}
