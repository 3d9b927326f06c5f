import { z } from 'zod'
import { type Channel, channels, dataMessages, type Message } from '../../core/wire/protocol/contract.ts'
import { nullIfAbsent } from '../../core/wire/protocol/figure.ts'
import { dataPath } from '../../core/wire/protocol/messages.ts'
import { idPattern } from '../../core/wire/protocol/topics.ts'
import { protocolVersion } from '../../core/wire/protocol/version.ts'

/** JSON Schema draft 7, as zod writes it. */
export type Schema = z.core.JSONSchema.BaseSchema

/** One message of the documents; a union has one variant per type or title. */
export interface Variant {
  /** `JobEvent.failed` */
  readonly name: string
  /** Possible values of `type`; empty where the schema is not a union. */
  readonly types: readonly string[]
  readonly schema: Schema
  readonly examples: readonly Readonly<Record<string, unknown>>[]
}

/** The schema of received messages: readers allow and drop further fields. */
export function schemaOf(schema: z.ZodType): Schema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { target: 'draft-7', io: 'input', override: simplified })
  return unmarked(rest)
}

/** Removes what is redundant in zod's output. */
export function simplified({ jsonSchema }: { jsonSchema: Schema }): void {
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  delete jsonSchema.propertyNames
}

/** A figure of the telemetry, which a message may leave out. */
export const isNullIfAbsent = (property: unknown): property is Schema =>
  typeof property === 'object' && property !== null && nullIfAbsent in property

/** Schemas without that mark. They share objects, so it can be removed only when all are written. */
export const unmarked = <T>(schemas: T): T =>
  JSON.parse(JSON.stringify(schemas), (_, value: unknown) => {
    if (!isNullIfAbsent(value)) return value
    const { [nullIfAbsent]: _mark, default: _null, ...rest } = value
    return rest
  })

export function variantsOf({ name, schema, examples }: Message): Variant[] {
  const whole = schemaOf(schema)
  if (whole.anyOf) {
    const members = whole.anyOf as Schema[]
    const memberOf = (example: object) => members.find((member) => hasRequired(member, example))
    return members.map((one) => ({
      name: one.title!,
      types: [],
      schema: one,
      examples: examples.filter((example) => memberOf(example) === one),
    }))
  }
  if (!whole.oneOf) return [{ name, types: [], schema: whole, examples }]
  return (whole.oneOf as Schema[]).map((one) => {
    const types = typesOf(one)
    return {
      name: `${name}.${types.join('-')}`,
      types,
      schema: one,
      examples: examples.filter(({ type }) => types.some((known) => known === type)),
    }
  })
}

/** Whether a message has every field that the schema requires: it tells the members of a union without types apart. */
export const hasRequired = ({ required = [] }: Schema, message: object) => required.every((name) => Object.hasOwn(message, name))

function typesOf({ properties = {} }: Schema): string[] {
  const { const: only, enum: several = [only] } = properties.type as Schema
  return several.map(String)
}

const ref = (...path: string[]) => ({ $ref: `#/${path.join('/')}` })
const keyed = <T>(entries: readonly (readonly [string, T])[]): Record<string, T> => Object.fromEntries(entries)
/** A description, because parameters have no schema in AsyncAPI 3.0. */
const idForm = `Matches \`${idPattern.source}\`.`
const messagesOf = (message: Message) =>
  keyed(variantsOf(message).map(({ name }) => [name, ref('components', 'messages', name)] as const))

const ids = {
  fleet: 'Name of the fleet; `default` unless configured.',
  device: 'Id of the device: `brim agent run --id`.',
  bridge: 'Id of the bridge: `brim bridge run --id`.',
}

function controlChannel({ address, retain, message }: Channel) {
  const parameters = [...address.matchAll(/\{(\w+)\}/g)].map(([, id]) => [id!, ref('components', 'parameters', id!)] as const)
  return {
    address,
    title: message.name,
    description: `${message.summary}${retain ? ' Retained.' : ''}`,
    servers: [ref('servers', 'broker')],
    parameters: keyed(parameters),
    messages: messagesOf(message),
  }
}

function operation(channel: string, action: 'send' | 'receive', message: Message, bindings?: object) {
  return {
    action,
    channel: ref('channels', channel),
    summary: message.summary,
    ...(bindings ? { bindings } : {}),
    messages: variantsOf(message).map(({ name }) => ref('channels', channel, 'messages', name)),
  }
}

function componentOf({ name, schema, examples }: Variant) {
  return {
    name,
    contentType: 'application/json',
    ...(schema.description === undefined ? {} : { summary: schema.description }),
    payload: ref('components', 'schemas', name),
    examples: examples.map((payload) => ({ payload })),
  }
}

/** AsyncAPI 3.0 from the bridge's point of view. https://www.asyncapi.com/docs/reference/specification/v3.0.0 */
export function asyncApi() {
  const { device, bridge } = dataMessages
  const variants = [...channels.map(({ message }) => message), device, bridge].flatMap(variantsOf)
  const mqtt = ({ qos, retain }: Channel) => ({ mqtt: { qos, retain, bindingVersion: '0.2.0' } })
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Brim',
      version: String(protocolVersion),
      description:
        'Messages between a bridge and its devices, from the point of view of the bridge: it performs the operations, and its send operations are messages to devices. Readers drop fields that they do not know.',
      license: { name: 'Apache-2.0' },
    },
    defaultContentType: 'application/json',
    servers: {
      broker: {
        host: 'localhost:1883',
        protocol: 'mqtt',
        protocolVersion: '3.1.1',
        description: "Control plane: the bridge's embedded broker (mqtts with --tls-cert).",
      },
      bridge: {
        host: 'localhost:7070',
        protocol: 'ws',
        description: "Data plane (wss with --tls-cert), on the port of the bridge's HTTP API.",
      },
    },
    channels: {
      ...keyed(channels.map((channel) => [channel.message.name, controlChannel(channel)] as const)),
      Data: {
        address: dataPath,
        title: 'Data plane',
        description:
          'Messages in JSON text. Hidden states use binary frames on the same connection, which core/wire/protocol/frame.ts describes.',
        servers: [ref('servers', 'bridge')],
        messages: { ...messagesOf(device), ...messagesOf(bridge) },
      },
    },
    operations: {
      ...keyed(
        channels.map((channel) => {
          const action = channel.from === 'bridge' ? 'send' : 'receive'
          const { message } = channel
          return [`${action}${message.name}`, operation(message.name, action, message, mqtt(channel))] as const
        }),
      ),
      receiveToBridge: operation('Data', 'receive', device),
      sendToDevice: operation('Data', 'send', bridge),
    },
    components: {
      parameters: keyed(
        Object.entries(ids).map(([id, description]) => [id, { description: `${description} ${idForm}` }] as const),
      ),
      messages: keyed(variants.map((variant) => [variant.name, componentOf(variant)] as const)),
      schemas: keyed(variants.map(({ name, schema }) => [name, schema] as const)),
    },
  }
}
