import { BrimError } from '../../kit/base/errors.ts'

/** Keywords whose value is one schema, a list of schemas, and schemas by name. */
const one = ['items', 'additionalProperties', 'unevaluatedProperties', 'unevaluatedItems'] as const
const lists = ['anyOf', 'allOf', 'prefixItems'] as const
const named = ['properties', '$defs', 'definitions'] as const

/** Kept to, or without a meaning for what is valid. */
const supported: ReadonlySet<string> = new Set([
  ...[...one, ...lists, ...named],
  ...[
    '$schema',
    '$id',
    '$anchor',
    '$comment',
    'title',
    'description',
    'default',
    'examples',
    'deprecated',
    'readOnly',
    'writeOnly',
  ],
  ...['$ref', 'type', 'enum', 'const', 'required', 'minItems', 'maxItems', 'minLength', 'maxLength', 'pattern', 'format'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minProperties', 'maxProperties', 'strict'],
])
/** Of strings, as XGrammar knows them. */
const formats: ReadonlySet<string> = new Set([
  ...[
    'email',
    'date',
    'time',
    'date-time',
    'duration',
    'ipv4',
    'ipv6',
    'hostname',
    'uuid',
    'uri',
    'uri-reference',
    'uri-template',
  ],
  ...['json-pointer', 'relative-json-pointer'],
])

const maxDepth = 64

/**
 * Checks that answers can be kept to a schema: XGrammar ignores keywords that it does not know.
 * @throws BrimError GRAMMAR_INVALID naming the keyword and its place, GRAMMAR_TOO_COMPLEX (nested too deeply)
 */
export function checkKeywords(schema: unknown, path = '#', depth = 0): void {
  if (depth > maxDepth)
    throw new BrimError('GRAMMAR_TOO_COMPLEX', `the schema is nested more than ${maxDepth} deep, at ${path.slice(0, 100)}…`)
  if (typeof schema === 'boolean') return
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) throw invalid(path, 'a schema must be an object')
  const fields = schema as Readonly<Record<string, unknown>>
  for (const [keyword, value] of Object.entries(fields)) {
    if (!supported.has(keyword)) throw invalid(path, `${keyword} is not supported`)
    if (keyword === 'format' && !formats.has(String(value))) throw invalid(path, `the format ${String(value)} is not supported`)
  }
  const visit = (value: unknown, at: string) => checkKeywords(value, `${path}/${at}`, depth + 1)
  for (const keyword of one) if (fields[keyword] !== undefined) visit(fields[keyword], keyword)
  for (const keyword of lists) for (const [at, value] of Object.entries(fields[keyword] ?? [])) visit(value, `${keyword}/${at}`)
  for (const keyword of named)
    for (const [name, value] of Object.entries(fields[keyword] ?? {})) visit(value, `${keyword}/${name}`)
}

const invalid = (path: string, why: string) =>
  new BrimError('GRAMMAR_INVALID', `the schema cannot be kept to: at ${path}, ${why}`, {
    hint: 'leave it out, or send the schema without strict: then answers follow it as far as it is supported',
  })
