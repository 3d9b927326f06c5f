export const logFormats = ['json', 'text'] as const
export type LogFormat = (typeof logFormats)[number]

const levels: Readonly<Record<number, string>> = { 60: 'FATAL', 50: 'ERROR', 40: 'WARN', 30: 'INFO', 20: 'DEBUG', 10: 'TRACE' }

/**
 * A line of the log for people: time, level, component, message, then the other fields as `name=value`. What an error's cause
 * and hint say follows as on the command line; an unexpected error's stack has lines of its own.
 * @param line as pino writes it
 */
export function logText({ level, time, component, msg, err, ...fields }: Record<string, unknown>): string {
  const { message, code, cause, hint, stack, type: _, ...more } = typeof err === 'object' && err !== null ? (err as Fields) : {}
  const where = component === undefined ? '' : `${String(component)}: `
  const named = Object.entries({ ...fields, ...more }).map(([name, value]) => `${name}=${shownValue(value)}`)
  const error = message === undefined ? [] : [`error: ${String(message)}${code === undefined ? '' : ` [${String(code)}]`}`]
  const causes = [cause === undefined ? '' : `why: ${String(cause)}`, hint === undefined ? '' : `try: ${String(hint)}`]
  const head = `${String(time)} ${(levels[Number(level)] ?? '').padEnd(5)} ${where}${String(msg ?? '')}`
  const parts = [[head, ...named].join(' '), ...error, ...causes].filter(Boolean).map((part) => part.replace(/\s*\n\s*/g, ' '))
  const lines =
    stack === undefined
      ? []
      : String(stack)
          .split('\n')
          .map((row) => `    ${row.trim()}`)
  return `${[parts.join('; '), ...lines].join('\n')}\n`
}

type Fields = Readonly<Record<string, unknown>>

function shownValue(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  return typeof value === 'string' && /[\s="]/.test(text) ? JSON.stringify(text) : text
}
