import { isList, type Value } from './value.ts'

/** How literals, strings and tuples are written: as Python prints them, or as JSON. */
interface Notation {
  readonly none: string
  readonly true: string
  readonly false: string
  readonly tuple: readonly [open: string, close: string]
  undefined(): string
  quote(text: string): string
}

/** Keyword arguments of `json.dumps`. */
export interface JsonOptions {
  readonly ensureAscii?: boolean
  readonly indent?: number | undefined
  readonly separators?: readonly [item: string, key: string] | undefined
  readonly sortKeys?: boolean
}

type Layout = Pick<JsonOptions, 'indent' | 'sortKeys'> & { readonly item: string; readonly key: string }

const python: Notation = {
  none: 'None',
  true: 'True',
  false: 'False',
  tuple: ['(', ')'],
  undefined: () => 'Undefined',
  quote: quotePython,
}

const json: Notation = {
  none: 'null',
  true: 'true',
  false: 'false',
  tuple: ['[', ']'],
  undefined() {
    throw new Error('an undefined value cannot be written as JSON')
  },
  quote: (text) => JSON.stringify(text),
}

/** Python's `str(value)`: what `{{ value }}` writes. */
export function str(value: Value): string {
  if (value.type === 'StringValue') return String(value.value)
  if (value.type === 'UndefinedValue') return ''
  return write(value, python, { item: ', ', key: ': ' }, '')
}

/** Python's `json.dumps(value)`. */
export function dumps(value: Value, { ensureAscii, indent, separators, sortKeys }: JsonOptions = {}): string {
  const [item, key] = separators ?? [indent === undefined ? ', ' : ',', ': ']
  const text = write(value, json, { indent, sortKeys: sortKeys ?? false, item, key }, '')
  return ensureAscii ? text.replace(/[\x7f-\uffff]/g, (unit) => `\\u${hex(unit.charCodeAt(0), 4)}`) : text
}

/** Python's `text.strip(characters)`; without characters, Unicode white space is removed. */
export function strip(text: string, characters: string | undefined, ends: 'both' | 'left' | 'right'): string {
  const isStripped = characters === undefined ? isPythonSpace : (character: string) => characters.includes(character)
  const points = Array.from(text)
  let [from, to] = [0, points.length]
  if (ends !== 'right') while (from < to && isStripped(points[from]!)) from++
  if (ends !== 'left') while (to > from && isStripped(points[to - 1]!)) to--
  return points.slice(from, to).join('')
}

/** Python counts U+001C to U+001F and U+0085 as white space, JavaScript counts U+FEFF. */
const isPythonSpace = (character: string) =>
  '\x1c\x1d\x1e\x1f\x85'.includes(character) || (character !== '\ufeff' && /\s/.test(character))

function write(value: Value, notation: Notation, layout: Layout, margin: string): string {
  const { type } = value
  const inner = layout.indent === undefined ? '' : margin + ' '.repeat(layout.indent)
  const within = (open: string, parts: string[], close: string) =>
    layout.indent === undefined || parts.length === 0
      ? open + parts.join(layout.item) + close
      : `${open}\n${inner}${parts.join(`${layout.item}\n${inner}`)}\n${margin}${close}`
  if (isList(value)) {
    const parts = (value.value as Value[]).map((each) => write(each, notation, layout, inner))
    const [open, close] = type === 'TupleValue' ? notation.tuple : (['[', ']'] as const)
    return within(open, parts, open === '(' && parts.length === 1 ? ',)' : close)
  }
  switch (type) {
    case 'StringValue':
      return notation.quote(String(value.value))
    case 'UndefinedValue':
      return notation.undefined()
    case 'NullValue':
      return notation.none
    case 'BooleanValue':
      return value.value ? notation.true : notation.false
    case 'IntegerValue':
      return String(value.value)
    case 'FloatValue':
      return floatText(value.value as number)
    case 'ObjectValue': {
      const entries = [...(value.value as Map<string, Value>)]
      if (layout.sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : 1))
      const parts = entries.map(([key, each]) => notation.quote(key) + layout.key + write(each, notation, layout, inner))
      return within('{', parts, '}')
    }
    default:
      throw new Error(`a ${type} cannot be written as text`)
  }
}

/** Python's `repr` of a float: an exponent of two digits or more below 1e-4 and from 1e16 on. */
function floatText(value: number): string {
  const scientific = value.toExponential()
  const exponent = Number(scientific.slice(scientific.indexOf('e') + 1))
  if (exponent < -4 || exponent >= 16) return scientific.replace(/e([+-])(\d)$/, 'e$10$2')
  return Number.isInteger(value) ? value.toFixed(1) : String(value)
}

/** Python's `repr` of a string. */
function quotePython(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const named: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t', "'": quote === "'" ? "\\'" : "'" }
  return quote + text.replace(/[\\']|(?! )[\p{C}\p{Z}]/gu, (character) => named[character] ?? escapeHidden(character)) + quote
}

function escapeHidden(character: string): string {
  const code = character.codePointAt(0) ?? 0
  if (code < 0x100) return `\\x${hex(code, 2)}`
  return code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`
}

const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0')
