import { type Channel, channels, dataMessages, type Message } from '../../core/wire/protocol/contract.ts'
import { dataPath } from '../../core/wire/protocol/messages.ts'
import { idPattern, pairTopics } from '../../core/wire/protocol/topics.ts'
import { protocolVersion } from '../../core/wire/protocol/version.ts'
import { type Schema, type Variant, variantsOf } from './asyncapi.ts'

/** docs/topics.md: the contract for people who watch topics or write programs that use them. */
export function topicsPage(): string {
  return `# Topics and messages

Generated from [core/wire/protocol/contract.ts](../core/wire/protocol/contract.ts) by \`npm run docs\`. Tests compare this page with the
code, and recorded traffic with the schemas. For programs: [asyncapi.json](asyncapi.json) (AsyncAPI 3.0).

## Watching

\`\`\`sh
mosquitto_sub -p 1883 -t 'brim/v1/#' -v                     # everything; retained messages come first
mosquitto_sub -p 1883 -t 'brim/v1/+/device/+/state' -v      # state of every device
mosquitto_sub -p 1883 -t 'brim/v1/+/device/+/faults' -v     # messages of devices that a bridge rejected
\`\`\`

Each message is one line of JSON. Once devices have enrolled (or with \`--auth\`) the broker in the bridge asks watchers for an API
key as password; the user name and the client id are free, except that a client id must not begin with \`device-\` or \`bridge-\`:

\`\`\`sh
brim bridge key create --name wall --role viewer --out wall.key
mosquitto_sub -h bridge.example -p 8883 --cafile cert.pem -u wall -P "$(cat wall.key)" -t 'brim/v1/#' -v
\`\`\`

Such a watcher may use any filter, and publishes only what [Home Assistant](home-assistant.md) does. It receives what \`/v1\` shows to the
role of its key: with the role viewer everything except \`jobs\`, \`events\` and \`acks\`, which carry the content of jobs and need the role
operator. It is disconnected within 5 s when its key is revoked or expires. MQTT over WebSocket (MQTT Explorer: protocol \`wss\`, path
\`mqtt\`) is on the bridge's HTTP port. Other brokers have their own users.

Most telemetry messages are deltas against a complete sample, which a watcher that has just come has not seen: with \`brim bridge run
--no-telemetry-deltas\` each one is a complete sample, for Telegraf and other readers.

## Rules

- MQTT 3.1.1. In \`brim/v1/<fleet>/…\` every id matches \`${idPattern.source}\`.
- Readers drop fields that they do not know, so either side can be updated first. They reject a message whose version (\`v\`) is
  not ${protocolVersion}.
- The sender of an invalid message is notified: a device on \`faults\`; a bridge that sent a job by the event \`failed\` with the
  failure \`refused\`; on the data plane by \`refused\` before the connection closes.
- Numbers carry their unit in their name: \`rttMs\`, \`totalBytes\`, \`hottestC\`, \`totalW\`. Null means unknown.
- Times are UTC in ISO 8601, by the clock of the sender.

## Topics

| topic | from | to | QoS | retained | message |
| --- | --- | --- | --- | --- | --- |
${channels.map(row).join('\n')}

At a broker outside the bridge, a bridge may have topics of its own below ${pairTopics.map((leaf) => `\`${leaf}\``).join(', ')}:
\`brim/v1/<fleet>/device/<device>/jobs/<bridge>\`, with the same messages. A bridge and a device that both announce \`ownTopics\` use only
these with each other ([ADR 14](adr/0014-bridges-on-one-broker-have-topics-of-their-own.md)).

${channels.map(({ message, address }) => section(message, `On \`${shown(address)}\`.`)).join('\n')}
## The data plane

JSON text on the WebSocket \`${dataPath}\`, beside binary frames, which [frame.ts](../core/wire/protocol/frame.ts) describes.

${section(dataMessages.device, 'Sent by the device.', 3)}
${section(dataMessages.bridge, 'Sent by the bridge.', 3)}`
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
  const head = isUnion ? ['field', 'type', 'messages', 'meaning'] : ['field', 'type', 'meaning']
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
  /** The types of a union that have the field; empty where there is no union. */
  readonly types: readonly string[]
  readonly meaning: string
}

/** The fields of all types of a union, without repetition. */
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
    const notes = [isNullable ? 'or null' : '', required.includes(name) ? '' : 'optional'].filter(Boolean)
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
  const limits = [
    minimum === undefined ? '' : `≥ ${minimum}`,
    exclusiveMinimum === undefined ? '' : `> ${exclusiveMinimum}`,
    maximum === undefined ? '' : `≤ ${maximum}`,
    minLength === undefined ? '' : `at least ${minLength} characters`,
    maxLength === undefined ? '' : `at most ${maxLength} characters`,
  ].filter(Boolean)
  return limits.length === 0 ? '' : ` ${limits.join(', ')}`
}
