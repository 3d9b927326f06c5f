import type { DeviceLog, LogLevel } from '../../core/protocol/commands.ts'

/** Parts of the agent that no text of a request passes through: what went wrong there can be told in its own words. */
const wordless = ['link', 'identity', 'device', 'remote']
/** Of every line, or said elsewhere in the message. */
const notFields = ['level', 'time', 'msg', 'component', 'device', 'err']
const longestText = 300
/** How long questions and answers are: a bridge that took no part in them has not seen that. */
const isLength = (name: string) => /tokens/i.test(name) || name === 'sources'

/** pino's numbers. */
const levelOf = (number: number): LogLevel => (number >= 50 ? 'error' : number >= 40 ? 'warn' : number >= 30 ? 'info' : 'debug')

export type LoggedLine = Pick<DeviceLog, 'at' | 'level' | 'component' | 'message' | 'fields'> & { readonly number: number }

/**
 * What of a line on stderr may leave the device. An error's message might quote what was asked: it goes along only from
 * parts that never see that, its stack never.
 */
export function lineToTell(json: string): LoggedLine {
  const line = JSON.parse(json) as Record<string, unknown>
  const { level: number, time, msg, component, err } = line
  const part = typeof component === 'string' ? component : 'agent'
  const rest = Object.entries(line).filter(([name]) => !notFields.includes(name) && !isLength(name))
  return {
    number: Number(number),
    at: String(time),
    level: levelOf(Number(number)),
    component: part.slice(0, 64),
    message: String(msg ?? '').slice(0, 500),
    fields: Object.fromEntries(
      [...rest, ...errorFields(err, wordless.includes(part))].map(([name, value]) => [name, plain(value)]),
    ),
  }
}

function errorFields(err: unknown, inItsWords: boolean): [string, unknown][] {
  if (typeof err !== 'object' || err === null) return []
  const { code, type, message } = err as Record<string, unknown>
  return [
    ['error', code ?? type ?? 'UNEXPECTED'],
    ...(inItsWords && message !== undefined ? [['why', message] as [string, unknown]] : []),
  ]
}

function plain(value: unknown): string | number | boolean | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'boolean') return value
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // An address may carry a password.
  return text.replace(/\/\/[^/@\s]*@/g, '//').slice(0, longestText)
}
