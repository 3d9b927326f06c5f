import { type Channel, channels, dataMessages, type Message } from '../../core/protocol/contract.ts'
import { dataPath } from '../../core/protocol/messages.ts'
import { idPattern } from '../../core/protocol/topics.ts'
import { protocolVersion } from '../../core/protocol/version.ts'
import { type Schema, type Variant, variantsOf } from './asyncapi.ts'

/** docs/topics.md: the contract for people who watch, or write programs that listen. */
export function topicsPage(): string {
  return `# Topics and messages

Made from [core/protocol/contract.ts](../core/protocol/contract.ts) by \`npm run docs\`; a test holds it, and recorded traffic,
against the code. For programs: [asyncapi.json](asyncapi.json) (AsyncAPI 3.0).

## Watching

\`\`\`sh
mosquitto_sub -p 1883 -t 'brim/v1/#' -v                     # everything; what is retained comes first
mosquitto_sub -p 1883 -t 'brim/v1/+/device/+/state' -v      # who is there
mosquitto_sub -p 1883 -t 'brim/v1/+/device/+/faults' -v     # who says what nobody can read
\`\`\`

Each message is one line of JSON. A bridge that asks for proof (\`--auth\`, or once a device has enrolled) lets devices and itself in
alone: watch such a fleet by \`GET /v1/devices\` with a key.

## Rules

- MQTT 3.1.1. In \`brim/v1/<fleet>/…\` every id matches \`${idPattern.source}\`.
- Readers drop fields that they do not know, so that either side can be updated first. A message of another version than
  ${protocolVersion} (\`v\`) is refused.
- Who is not understood is told: a device on \`faults\`; a bridge, where the message was a job, by the event \`failed\` with the failure
  \`refused\`; on the data plane by \`refused\` before the connection is closed.
- Numbers carry their unit in their name: \`rttMs\`, \`totalBytes\`, \`hottestC\`, \`totalW\`. Null means: not known.
- Times are UTC, ISO 8601, by the clock of whoever says them.

## Topics

| topic | says | to | QoS | retained | message |
| --- | --- | --- | --- | --- | --- |
${channels.map(row).join('\n')}

${channels.map(({ message, address }) => section(message, `On \`${shown(address)}\`.`)).join('\n')}
## The data plane

JSON text on the WebSocket \`${dataPath}\`, beside the binary frames of [frame.ts](../core/protocol/frame.ts).

${section(dataMessages.device, 'Said by the device.', 3)}
${section(dataMessages.bridge, 'Said by the bridge.', 3)}`
}

const shown = (address: string) => address.replaceAll('{', '<').replaceAll('}', '>')
const linkTo = ({ name }: Message) => `[${name}](#${name.toLowerCase()})`

const row = ({ address, from, to, qos, retain, message }: Channel) =>
  line([`\`${shown(address)}\``, from, to.join(', '), String(qos), retain ? 'yes' : 'no', linkTo(message)])

const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`

function section(message: Message, where: string, level = 2): string {
  const variants = variantsOf(message)
  const rows = mergedRows(variants)
  const allTypes = variants.flatMap(({ types }) => types)
  const isUnion = allTypes.length > 0
  const head = isUnion ? ['field', 'type', 'of', 'meaning'] : ['field', 'type', 'meaning']
  const lines = rows.map(({ field, type, types, meaning }) => {
    const of = types.length === allTypes.length ? '' : types.map((name) => `\`${name}\``).join(', ')
    return line(isUnion ? [`\`${field}\``, type, of, meaning] : [`\`${field}\``, type, meaning])
  })
  const examples = variants.flatMap((variant) => variant.examples).map((example) => JSON.stringify(example))
  return `${'#'.repeat(level)} ${message.name}

${message.summary} ${where}

${line(head)}
${line(head.map(() => '---'))}
${lines.join('\n')}

\`\`\`json
${examples.join('\n')}
\`\`\`
`
}

interface Row {
  readonly field: string
  readonly type: string
  /** Of a union, those of its types that have the field. */
  readonly types: readonly string[]
  readonly meaning: string
}

/** The fields of all types of a union, each once. */
function mergedRows(variants: readonly Variant[]): Row[] {
  const rows = new Map<string, Row>()
  for (const { schema, types } of variants)
    for (const found of rowsOf(schema, '', types)) {
      const known = rows.get(found.field)
      const type = known && known.type !== found.type ? `${known.type}, ${found.type}` : found.type
      rows.set(found.field, { ...found, type, types: [...(known?.types ?? []), ...found.types] })
    }
  return [...rows.values()]
}

function rowsOf({ properties = {}, required = [] }: Schema, within: string, types: readonly string[]): Row[] {
  return Object.entries(properties).flatMap(([name, property]) => {
    const field = within + name
    const { schema, isNullable } = unwrapped(property as Schema)
    const notes = [isNullable ? 'or null' : '', required.includes(name) ? '' : 'may be absent'].filter(Boolean)
    const type = [wordFor(schema), ...notes].join(', ')
    const meaning = (property as Schema).description ?? ''
    return [{ field, type, types, meaning }, ...inside(schema, field, types)]
  })
}

function inside(schema: Schema, field: string, types: readonly string[]): Row[] {
  const isRecord = typeof schema.additionalProperties === 'object'
  const element = isRecord ? schema.additionalProperties : schema.type === 'array' ? schema.items : undefined
  if (typeof element !== 'object') return rowsOf(schema, `${field}.`, types)
  return rowsOf(element as Schema, `${field}${isRecord ? '.<name>' : '[]'}.`, types)
}

function unwrapped(schema: Schema): { schema: Schema; isNullable: boolean } {
  if (Array.isArray(schema.type)) {
    const [type] = schema.type.filter((name) => name !== 'null')
    return { schema: { ...schema, type } as Schema, isNullable: schema.type.includes('null') }
  }
  const inner = (schema.anyOf as Schema[] | undefined)?.filter(({ type }) => type !== 'null')
  return inner?.length === 1 ? { schema: inner[0]!, isNullable: true } : { schema, isNullable: false }
}

function wordFor(schema: Schema): string {
  if (schema.const !== undefined) return `\`${schema.const}\``
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(', ')
  if (schema.format === 'date-time') return 'time'
  if (schema.title !== undefined) return schema.title
  if (schema.type === 'array') return `list of ${wordFor(schema.items as Schema)}`
  if (typeof schema.additionalProperties === 'object' && Object.keys(schema.additionalProperties).length > 0)
    return `${wordFor(schema.additionalProperties as Schema)} by name`
  return `${schema.type ?? 'anything'}${bounds(schema)}`
}

function bounds({ minimum, maximum, exclusiveMinimum, maxLength, minLength }: Schema): string {
  const said = [
    minimum === undefined ? '' : `≥ ${minimum}`,
    exclusiveMinimum === undefined ? '' : `> ${exclusiveMinimum}`,
    maximum === undefined ? '' : `≤ ${maximum}`,
    minLength === undefined ? '' : `at least ${minLength} characters`,
    maxLength === undefined ? '' : `at most ${maxLength} characters`,
  ].filter(Boolean)
  return said.length === 0 ? '' : ` ${said.join(', ')}`
}
