import { parse, tokenize } from '@huggingface/jinja'
import { PythonInterpreter } from './interpreter.ts'
import { type Node, newScope } from './value.ts'

export interface RenderOptions {
  /** For `strftime_now`, which many templates use for today's date. */
  readonly now: Date
  /** Evaluations of nodes: a template from elsewhere may loop for hours. */
  readonly maxSteps: number
}

export interface Template {
  /** @throws Error, also where it takes more than `maxSteps` */
  render(variables: Readonly<Record<string, unknown>>, options: RenderOptions): string
}

/** Numbers of one `range()`, as in Jinja's sandbox. */
const maxRange = 100_000

/** @throws Error saying what the parser did not understand */
export function parseTemplate(source: string): Template {
  const program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })) as unknown as Node
  return {
    render(variables, { now, maxSteps }) {
      const scope = newScope()
      for (const [name, value] of Object.entries({ ...constants, ...functions(now), ...variables })) scope.set(name, value)
      return String(new PythonInterpreter(scope, maxSteps).evaluate(program, scope).value)
    },
  }
}

const constants = { true: true, True: true, false: false, False: false, none: null, None: null }

function functions(now: Date): Record<string, unknown> {
  return {
    raise_exception(message: string) {
      throw new Error(message)
    },
    range,
    strftime_now: (format: string) => strftime(now, format),
  }
}

function range(first: number, end?: number, step = 1): number[] {
  const [from, to] = end === undefined ? [0, first] : [first, end]
  if (step === 0) throw new Error('range() step must not be zero')
  const length = Math.max(0, Math.ceil((to - from) / step))
  if (length > maxRange) throw new Error(`range() has ${length} numbers, more than ${maxRange}`)
  return Array.from({ length }, (_, i) => from + i * step)
}

/** Python's `strftime` in English and local time; a directive that is not known is left as it is. */
function strftime(date: Date, format: string): string {
  const part = (options: Intl.DateTimeFormatOptions) => date.toLocaleDateString('en-US', options)
  const two = (value: number) => String(value).padStart(2, '0')
  const directives: Record<string, () => string> = {
    '%Y': () => String(date.getFullYear()),
    '%m': () => two(date.getMonth() + 1),
    '%d': () => two(date.getDate()),
    '%H': () => two(date.getHours()),
    '%M': () => two(date.getMinutes()),
    '%S': () => two(date.getSeconds()),
    '%B': () => part({ month: 'long' }),
    '%b': () => part({ month: 'short' }),
    '%A': () => part({ weekday: 'long' }),
    '%a': () => part({ weekday: 'short' }),
    '%%': () => '%',
  }
  return format.replace(/%./g, (directive) => directives[directive]?.() ?? directive)
}
