import { z } from 'zod'
import '../base/plain-messages.ts'
import { BrimError } from '../base/errors.ts'

/**
 * An option of the command line, as its zod schema describes it. A field becomes one when it has a description:
 * `z.int().default(2).meta({ description: 'threads per operator' })`. Further metadata:
 * `flag` (its name where kebab case of the path is not), `alias`, `conflicts` (another flag), `fallback` (the text
 * shown as default where the schema has none) and `fleet` (`true`: a job of the fleet may set it).
 */
export interface Flag {
  readonly name: string
  /** Of the field, in the object that the schema parses. */
  readonly path: readonly string[]
  readonly type: 'string' | 'number' | 'boolean'
  /** May be given several times. */
  readonly isList: boolean
  readonly isRequired: boolean
  readonly help: string
  /** Text of the default. */
  readonly fallback: string | undefined
  readonly choices: readonly (string | number)[] | undefined
  readonly alias: string | undefined
  readonly conflicts: string | undefined
  /** A job `config.apply` may set it; all others are set by the device's owner alone. */
  readonly isFleets: boolean
}

interface Property {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly (string | number)[]
  readonly items?: Property
  /** One value, or a list. */
  readonly anyOf?: readonly Property[]
  readonly properties?: Readonly<Record<string, Property>>
  readonly required?: readonly string[]
  readonly flag?: string
  readonly alias?: string
  readonly conflicts?: string
  readonly fallback?: string
  readonly fleet?: boolean
}

/** The options of an object's fields, including nested objects. */
export function flagsOf(schema: z.ZodType): Flag[] {
  return flagsIn(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Property, [], true)
}

function flagsIn({ properties = {}, required = [] }: Property, parents: readonly string[], isRequired: boolean): Flag[] {
  return Object.entries(properties).flatMap(([field, property]) => {
    const path = [...parents, field]
    const needed = isRequired && required.includes(field)
    if (property.properties) return flagsIn(property, path, needed)
    return property.description === undefined ? [] : [flagOf(property, property.description, path, needed)]
  })
}

function flagOf(property: Property, help: string, path: readonly string[], isRequired: boolean): Flag {
  const list = [property, ...(property.anyOf ?? [])].find(({ type }) => type === 'array')
  const value = list ? (list.items ?? {}) : property
  const { default: standard, fallback = textOf(standard), alias, conflicts, fleet = false } = property
  return {
    name: property.flag ?? kebab(path.join('-')),
    path,
    type: typeOf(value.type),
    isList: list !== undefined,
    isRequired,
    help,
    fallback,
    choices: value.enum,
    alias,
    conflicts,
    isFleets: fleet,
  }
}

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const typeOf = (type: string | undefined): Flag['type'] =>
  type === 'boolean' ? 'boolean' : type === 'integer' || type === 'number' ? 'number' : 'string'

function textOf(standard: unknown): string | undefined {
  if (standard === undefined || standard === false || (Array.isArray(standard) && standard.length === 0)) return undefined
  return standard === true ? 'yes' : String(standard)
}

/**
 * What the schema makes of the values given on the command line, by flag name.
 * @param positionals names written without dashes
 * @throws BrimError USAGE naming every option that is wrong
 */
export function parseFlags<Schema extends z.ZodType>(
  schema: Schema,
  values: Readonly<Record<string, unknown>>,
  positionals: readonly string[] = [],
): z.output<Schema> {
  const flags = flagsOf(schema)
  const repeated = flags.find(({ name, isList }) => !isList && Array.isArray(values[name]))
  if (repeated) throw new BrimError('USAGE', `--${repeated.name} is given more than once`, { hint: 'give it once' })
  const parsed = schema.safeParse(settingsOf(flags, values))
  if (parsed.success) return parsed.data
  const label = (name: string) => (positionals.includes(name) ? name : `--${name}`)
  throw new BrimError('USAGE', flagProblemsOf(parsed.error, flags, values, label).join('; '), {
    hint: 'add --help to see the options and examples',
  })
}

/**
 * Every option that is wrong, with its value and the reason.
 * @param label of an option by its name, such as `--id`
 */
export function flagProblemsOf(
  { issues }: z.ZodError,
  flags: readonly Flag[],
  values: Readonly<Record<string, unknown>>,
  label: (name: string) => string,
): string[] {
  return issues.map((issue) => {
    const flag = flags.find(({ path }) => path.every((part, at) => part === issue.path[at]))
    if (!flag) return [issue.path.join('.'), issue.message].filter(Boolean).join(': ')
    const { name } = flag
    const given = [values[name] ?? []].flat().at(flag.isList ? Number(issue.path[flag.path.length] ?? 0) : 0)
    return given === undefined ? `${label(name)} is missing` : `${label(name)} ${given} ${issue.message}`
  })
}

/** The fields that are given, each at its place. */
export function settingsOf(flags: readonly Flag[], values: Readonly<Record<string, unknown>>): object {
  const settings: Record<string, unknown> = {}
  for (const { name, path } of flags) {
    if (values[name] === undefined) continue
    let place = settings
    for (const parent of path.slice(0, -1)) {
      place[parent] ??= {}
      place = place[parent] as Record<string, unknown>
    }
    place[path.at(-1) ?? ''] = values[name]
  }
  return settings
}

/** The options that differ from their defaults, as they are written on a command line. */
export function flagsText(schema: z.ZodType, options: Readonly<Record<string, unknown>>): string[] {
  return flagsOf(schema).flatMap(({ name, path, fallback }) => {
    const value = path.reduce<unknown>((place, field) => (place as Record<string, unknown> | undefined)?.[field], options)
    return value === undefined || String(value) === fallback ? [] : [`--${name} ${String(value)}`]
  })
}
