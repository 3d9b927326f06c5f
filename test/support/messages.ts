import fc from 'fast-check'
import type { Schema } from '../../scripts/docs/asyncapi.ts'

type Json = fc.JsonValue

/** Values that a JSON Schema written by zod allows. */
export function valid(schema: Schema): fc.Arbitrary<Json> {
  if (schema.const !== undefined) return fc.constant(schema.const as Json)
  if (schema.enum) return fc.constantFrom(...(schema.enum as Json[]))
  const choices = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined
  if (choices) return fc.oneof(...choices.map(valid))
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => valid({ ...schema, type })))
  switch (schema.type) {
    case 'object':
      return validObject(schema)
    case 'array':
      return fc.array(valid(schema.items as Schema), { maxLength: Math.min(schema.maxItems ?? 4, 4) })
    case 'string':
      return validString(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -(2 ** 31), max: schema.maximum ?? 2 ** 31 })
    case 'number':
      return fc.double({
        min: Number(schema.exclusiveMinimum ?? schema.minimum ?? -1e12),
        minExcluded: schema.exclusiveMinimum !== undefined,
        max: schema.maximum ?? 1e12,
        noNaN: true,
      })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case undefined:
      return fc.jsonValue({ maxDepth: 3 })
    default:
      throw new Error(`no values for ${JSON.stringify(schema)}`)
  }
}

function validObject({ properties = {}, required = [], additionalProperties }: Schema): fc.Arbitrary<Json> {
  const fields = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, valid(property as Schema)])),
    { requiredKeys: required as string[] },
  )
  if (typeof additionalProperties !== 'object') return fields as fc.Arbitrary<Json>
  return fc.dictionary(fc.string({ minLength: 1, maxLength: 12 }), valid(additionalProperties as Schema), { maxKeys: 4 })
}

function validString({ pattern, format, examples, minLength = 0, maxLength = minLength + 24 }: Schema): fc.Arbitrary<Json> {
  if (format === 'date-time')
    return fc.date({ min: new Date(0), max: new Date('2099-12-31'), noInvalidDate: true }).map((at) => at.toISOString())
  // JSON Schema does not say which protocols a URI may have.
  if (Array.isArray(examples)) return fc.constantFrom(...(examples as string[]))
  if (format === 'uri') return fc.constantFrom('ws://10.0.0.5:7070/v1/data', 'wss://example.org/v1/data')
  if (pattern === undefined) return fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 24) })
  const source = minLength === maxLength ? pattern.replace(/\+\$$/, `{${minLength}}$`) : pattern
  return fc.stringMatching(new RegExp(source))
}

/** Part of every string that mutations insert: an error message must never repeat it. */
export const secret = 'sEcReT'

const deep = (levels: number): Json => (levels === 0 ? secret : [deep(levels - 1)])
const wrong: readonly Json[] = [
  null,
  true,
  -1,
  0.5,
  Number.MAX_SAFE_INTEGER + 2,
  1e300,
  '',
  secret,
  `${secret}/+/#`,
  secret.repeat(8_000),
  '\u0000\ud800',
  [],
  [secret],
  {},
  { more: secret },
  deep(40),
  deep(90),
]

type Mutation = { kind: 'drop' } | { kind: 'replace'; by: Json } | { kind: 'add'; name: string; value: Json }

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.constant({ kind: 'drop' } as const),
  fc.record({ kind: fc.constant('replace' as const), by: fc.constantFrom(...wrong) }),
  fc.record({
    kind: fc.constant('add' as const),
    name: fc.constantFrom('__proto__', 'constructor', 'toString', 'v', 'type', 'addedLater', ''),
    value: fc.constantFrom<Json>({ isAdmin: true }, 2, '1', null, { v: 1 }, secret),
  }),
)

/** The value with one field changed. @param place index of the field, modulo their number */
function changed(value: Json, place: number, how: Mutation): Json {
  const places = fieldsOf(value)
  if (places.length === 0) return how.kind === 'replace' ? how.by : value
  const { holder, key } = places[place % places.length]!
  const swap = (node: Json): Json => {
    if (node === holder) return edited(node as Json[] | Record<string, Json>, key, how)
    if (Array.isArray(node)) return node.map(swap)
    if (typeof node !== 'object' || node === null) return node
    return Object.fromEntries(Object.entries(node).map(([name, inner]) => [name, swap(inner as Json)]))
  }
  return swap(value)
}

function fieldsOf(value: Json): { holder: Json; key: string }[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [{ holder: value, key }, ...fieldsOf(inner as Json)])
}

function edited(holder: Json[] | Record<string, Json>, key: string, how: Mutation): Json {
  const entries = Object.entries(holder)
  if (how.kind === 'add') entries.push([how.name, how.value])
  const remaining = how.kind === 'drop' ? entries.filter(([name]) => name !== key) : entries
  const result = remaining.map(([name, inner]) => [name, how.kind === 'replace' && name === key ? how.by : inner] as const)
  return Array.isArray(holder) ? result.map(([, inner]) => inner) : Object.fromEntries(result)
}

/** Damage to the bytes of a message: cut, overwritten, replaced. */
const damage: fc.Arbitrary<(bytes: Buffer) => Buffer> = fc.oneof(
  { weight: 6, arbitrary: fc.constant((bytes: Buffer) => bytes) },
  fc.nat().map((at) => (bytes: Buffer) => bytes.subarray(0, at % (bytes.length + 1))),
  fc.tuple(fc.nat(), fc.nat({ max: 255 })).map(([at, byte]) => (bytes: Buffer) => {
    const copy = Buffer.from(bytes)
    if (copy.length > 0) copy[at % copy.length] = byte
    return copy
  }),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => () => Buffer.from(bytes)),
  fc.constantFrom('[', '{"a":').map((open) => () => Buffer.from(open.repeat(5_000))),
  fc.constant((bytes: Buffer) => Buffer.from(bytes.toString().replace(/:\d+/, ':1e999'))),
  fc.constant((bytes: Buffer) => Buffer.from(bytes.toString().replace(/:\d+/, ':NaN'))),
  fc.constant((bytes: Buffer) => Buffer.concat([bytes, Buffer.from([0xc3, 0x28])])),
)

/** Bytes of a message with one to three mutations and possible damage. */
export function mutated(messages: fc.Arbitrary<unknown>): fc.Arbitrary<Buffer> {
  const steps = fc.array(fc.tuple(fc.nat(), mutation), { minLength: 1, maxLength: 3 })
  return fc.tuple(messages, steps, damage).map(([message, changes, harm]) => {
    const plain = JSON.parse(JSON.stringify(message)) as Json
    const value = changes.reduce((now, [place, how]) => changed(now, place, how), plain)
    return harm(Buffer.from(JSON.stringify(value)))
  })
}
