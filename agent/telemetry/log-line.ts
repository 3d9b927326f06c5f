import type { DeviceLog, LogLevel } from '../../core/wire/protocol/commands.ts'

/** Components that never handle the text of a request: their error messages cannot quote any. */
const textFree = ['link', 'identity', 'device', 'remote']
/** Fields of every line, or sent as separate fields of the message. */
const omitted = ['level', 'time', 'msg', 'component', 'device', 'err']
const maxTextChars = 300
/** Lengths of prompts and answers stay on the device: a bridge that did not serve them must not learn them. */
const isLength = (name: string) => /tokens/i.test(name) || name === 'sources'

/** @param number of pino */
const levelOf = (number: number): LogLevel => (number >= 50 ? 'error' : number >= 40 ? 'warn' : number >= 30 ? 'info' : 'debug')

/** A log line, with pino's number of its level. */
export type LoggedLine = Pick<DeviceLog, 'at' | 'level' | 'component' | 'message' | 'fields'> & { readonly number: number }

/**
 * The part of a log line that may leave the device. An error's message could quote a prompt: it is included only from
 * components that never see one. Stacks are never included.
 */
export function toDeviceLog(json: string): LoggedLine {
  const line = JSON.parse(json) as Record<string, unknown>
  const { level: number, time, msg, component, err } = line
  const source = typeof component === 'string' ? component : 'agent'
  const rest = Object.entries(line).filter(([name]) => !omitted.includes(name) && !isLength(name))
  return {
    number: Number(number),
    at: String(time),
    level: levelOf(Number(number)),
    component: source.slice(0, 64),
    message: String(msg ?? '').slice(0, 500),
    fields: Object.fromEntries(
      [...rest, ...errorFields(err, textFree.includes(source))].map(([name, value]) => [name, plain(value)]),
    ),
  }
}

function errorFields(err: unknown, withMessage: boolean): [string, unknown][] {
  if (typeof err !== 'object' || err === null) return []
  const { code, type, message, cause } = err as Record<string, unknown>
  const why = cause === undefined ? message : `${message}: ${cause}`
  return [
    ['error', code ?? type ?? 'UNEXPECTED'],
    ...(withMessage && message !== undefined ? [['why', why] as [string, unknown]] : []),
  ]
}

function plain(value: unknown): string | number | boolean | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'boolean') return value
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // A URL may contain a password.
  return text.replace(/\/\/[^/@\s]*@/g, '//').slice(0, maxTextChars)
}
