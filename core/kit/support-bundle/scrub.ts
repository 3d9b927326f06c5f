import { shownUrls } from '../base/shown-url.ts'

/** What authenticates a device, client or operator, wherever in a text it stands. */
const secrets: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, '[private key]'],
  [/\bbrim-(key|enroll)-1\.[\w-]+/g, 'brim-$1-1.[removed]'],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, '$1 [removed]'],
  [/\b(password|passwd|secret|token|api[_-]?key)("?\s*[:=]\s*"?)[^\s",}]+/gi, '$1$2[removed]'],
]

/** The text without passwords, keys and tokens. */
export const scrub = (text: string): string =>
  secrets.reduce((scrubbed, [pattern, replacement]) => scrubbed.replace(pattern, replacement), shownUrls(text))

/** The value of an option. */
export const scrubValue = <T>(value: T): T | string => (typeof value === 'string' ? scrub(value) : value)

/** Strings of a log line that its writer chooses, not the text of a request, an answer or another server. */
const loggedWords = [
  'time',
  'level',
  'component',
  'device',
  'bridge',
  'job',
  'rollout',
  'kind',
  'state',
  'code',
  'modelId',
  'msg',
]

/**
 * A line of our own log with what cannot hold text of others: words that the program chooses, numbers, and of an error its code and
 * the places in our code.
 * @returns undefined for a line that is not ours
 */
export function scrubLogLine(line: string): string | undefined {
  let fields: unknown
  try {
    fields = JSON.parse(line)
  } catch {
    return scrubTextLine(line)
  }
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return undefined
  const kept = Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
    if (name === 'err') return [[name, scrubError(value)]]
    if (typeof value === 'number' || typeof value === 'boolean') return [[name, value]]
    return typeof value === 'string' && loggedWords.includes(name) ? [[name, scrub(value)]] : []
  })
  return JSON.stringify(Object.fromEntries(kept))
}

/** The same for a line of core/kit/base/log-text.ts. */
function scrubTextLine(line: string): string | undefined {
  const [, start, rest = ''] = /^(\d{4}-\S+Z (?:FATAL|ERROR|WARN|INFO|DEBUG|TRACE) +)(.*)$/.exec(line) ?? []
  if (start === undefined) return undefined
  const [head = '', error] = rest.split(/; error: (.*)/s, 2)
  const at = head.search(/ \w+=/)
  const fields = [...(at < 0 ? '' : head.slice(at)).matchAll(/ (\w+)=("(?:[^"\\]|\\.)*"|\S*)/g)].flatMap(
    ([field, name = '', value = '']) => (loggedWords.includes(name) || /^(-?[\d.]+|true|false)$/.test(value) ? [field] : []),
  )
  const [, code] = /\[([A-Z_]+)\]/.exec(error ?? '') ?? []
  return scrub([start, at < 0 ? head : head.slice(0, at), ...fields, code === undefined ? '' : ` [${code}]`].join(''))
}

function scrubError(error: unknown): object {
  const { type, code, stack } = (typeof error === 'object' && error !== null ? error : {}) as Record<string, unknown>
  const frames = typeof stack === 'string' ? stack.split('\n').filter((line) => /^\s+at /.test(line)) : []
  return { type, code, at: frames.map((frame) => frame.trim()) }
}
