import { isatty } from 'node:tty'
import { destination, type Logger, multistream, pino } from 'pino'
import { errorFields } from './error-fields.ts'
import { type LogFormat, logText } from './log-text.ts'
import { shownUrls } from './shown-url.ts'
import { visibleText } from './visible-text.ts'

export type { Logger }

/** A second destination of the log, beside stderr. */
export interface LogTap {
  /** pino's number of the lowest level that it receives; may change at any time. */
  readonly minLevel: number
  /** Receives one line of JSON, with secrets redacted. */
  write(line: string): void
}

export interface LoggerOptions {
  /** Receives every `err` that is logged at the level or above. */
  readonly onError?: (error: unknown) => void
  readonly tap?: LogTap
  /** Of the lines on stderr. Absent: text on a terminal, else JSON. */
  readonly format?: LogFormat | undefined
  /** Lines start with `<N>`, their priority for journald and syslog. */
  readonly priorities?: boolean | undefined
}

const stderrFd = 2

/** A logger with lines on stderr. They never contain prompts, completions or credentials, nor those of URLs. */
export function createLogger(level: string, context: Record<string, unknown> = {}, options: LoggerOptions = {}): Logger {
  const { onError = () => {}, tap, format = isatty(stderrFd) ? 'text' : 'json', priorities = false } = options
  const lines = destination({ fd: stderrFd, sync: true })
  const stderr = { write: (line: string) => lines.write(shown(shownUrls(line), format, priorities)) }
  const minLevel = pino.levels.values[level] ?? Number.POSITIVE_INFINITY
  return pino(
    {
      level: tap ? 'debug' : level,
      base: context,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: errorFields },
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
          { level: 'debug', stream: { write: (line: string) => tap.write(shownUrls(line)) } },
        ])
      : stderr,
  )
}

/** @param json one line. A log line may name a client by the id that it chose. */
function shown(json: string, format: LogFormat, priorities: boolean): string {
  const text = visibleText(format === 'json' ? json : logText(JSON.parse(json) as Record<string, unknown>))
  if (!priorities) return text
  const { level } = JSON.parse(json) as { level: number }
  return text.replace(/^(?=.)/gm, `<${priorityOf(level)}>`)
}

/** Priority of syslog for a level of pino: critical, error, warning, informational, debug. */
const priorityOf = (level: number): number => (level >= 60 ? 2 : level >= 50 ? 3 : level >= 40 ? 4 : level >= 30 ? 6 : 7)
