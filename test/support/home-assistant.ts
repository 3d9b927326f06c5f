import { Template } from '@huggingface/jinja'
import { z } from 'zod'
import { mqttClient } from './broker.ts'

const topic = z.string().regex(/^[^+#\0]+$/)
const common = {
  name: z.string(),
  unique_id: z.string(),
  state_topic: topic,
  value_template: z.string(),
  availability: z.array(z.strictObject({ topic, value_template: z.string() })).min(1),
  availability_mode: z.enum(['all', 'any', 'latest']),
  qos: z.union([z.literal(0), z.literal(1), z.literal(2)]),
  device: z.strictObject({
    identifiers: z.array(z.string()).min(1),
    name: z.string(),
    model: z.string().optional(),
    sw_version: z.string().optional(),
  }),
  origin: z.strictObject({ name: z.string(), sw_version: z.string(), support_url: z.url().optional() }),
}
/** Units that Home Assistant allows for each class of sensor that Brim uses. */
const units: Readonly<Record<string, readonly string[]>> = {
  battery: ['%'],
  data_rate: ['bit/s', 'kbit/s', 'Mbit/s', 'B/s', 'kB/s', 'MB/s'],
  power: ['mW', 'W', 'kW'],
  temperature: ['°C', '°F', 'K'],
}
const diagnostic = z.literal('diagnostic').optional()

/**
 * What Home Assistant accepts for these components, as its documentation has it, without the keys that it drops. Its own schemas of
 * 2024.3 have accepted the same payloads; they do not know `options` yet.
 */
const discovery: Readonly<Record<string, z.ZodType>> = {
  sensor: z
    .strictObject({
      ...common,
      device_class: z.enum(['enum', ...Object.keys(units)]).optional(),
      state_class: z.literal('measurement').optional(),
      unit_of_measurement: z.string().optional(),
      options: z.array(z.string()).min(1).optional(),
      suggested_display_precision: z.int().min(0).optional(),
      entity_category: diagnostic,
    })
    .refine(({ device_class: of, options }) => (of === 'enum') === (options !== undefined), 'options belong to an enum')
    .refine(({ options, state_class, unit_of_measurement }) => !options || (!state_class && !unit_of_measurement), 'no number')
    .refine(({ device_class: of, unit_of_measurement: unit = '' }) => !units[of ?? ''] || units[of!]!.includes(unit), 'unit'),
  binary_sensor: z.strictObject({
    ...common,
    device_class: z.enum(['problem', 'heat']).optional(),
    entity_category: diagnostic,
  }),
  switch: z.strictObject({
    ...common,
    command_topic: topic,
    payload_on: z.string(),
    payload_off: z.string(),
    state_on: z.string(),
    state_off: z.string(),
    entity_category: z.literal('config').optional(),
  }),
}

/** As its rule for discovery topics: https://www.home-assistant.io/integrations/mqtt/#discovery-topic */
const discoveryTopicPattern = /^homeassistant\/(?<component>\w+)\/(?:[a-zA-Z0-9_-]+\/)?[a-zA-Z0-9_-]+\/config$/

interface Entity {
  readonly unique_id: string
  readonly name: string
  readonly state_topic: string
  readonly value_template: string
  readonly availability: readonly { readonly topic: string; readonly value_template: string }[]
  readonly command_topic?: string
  readonly payload_on?: string
  readonly payload_off?: string
  readonly device: { readonly name: string; readonly model?: string }
}

/**
 * Does with MQTT discovery what Home Assistant does: subscribes, says that it is online, with a will, makes entities of what
 * it can read, and removes them when their topics are cleared.
 */
export async function startHomeAssistant(url: string, login: { username?: string; password?: string } = {}) {
  const client = await mqttClient(url, `home-${Math.random().toString(36).slice(2, 10)}`, {
    ...login,
    will: { topic: 'homeassistant/status', payload: Buffer.from('offline'), qos: 0, retain: false },
  })
  const entities = new Map<string, Entity>()
  const rejected: string[] = []
  const retained = new Map<string, string>()
  const subscribed = new Set<string>()
  client.on('message', (on, payload) => {
    const text = payload.toString()
    const component = discoveryTopicPattern.exec(on)?.groups?.component
    if (component === undefined) return void retained.set(on, text)
    if (text === '') return void entities.delete(on)
    const read = discovery[component]?.safeParse(JSON.parse(text))
    if (!read?.success) return void rejected.push(`${on}: ${read ? z.prettifyError(read.error) : 'unknown component'}`)
    const entity = read.data as Entity
    entities.set(on, entity)
    const topics = [entity.state_topic, ...entity.availability.map(({ topic: of }) => of)]
    for (const of of new Set(topics)) if (!subscribed.has(of)) client.subscribe(of, { qos: 1 })
    for (const of of topics) subscribed.add(of)
  })
  await client.subscribeAsync('homeassistant/#', { qos: 1 })
  await client.publishAsync('homeassistant/status', 'online')
  const render = (template: string, on: string) => {
    const text = retained.get(on)
    return text === undefined || text === '' ? undefined : new Template(template).render({ value_json: JSON.parse(text) })
  }
  const find = (id: string) => {
    const entity = [...entities.values()].find(({ unique_id }) => unique_id === id)
    if (!entity) throw new Error(`no entity ${id}; there are ${[...entities.values()].map(({ unique_id }) => unique_id)}`)
    return entity
  }
  return {
    entities,
    /** What it could not read. */
    rejected,
    find,
    /** The state of an entity; 'unavailable' where one of its sources says so. */
    state(id: string): string | undefined {
      const { availability, value_template: template, state_topic: on } = find(id)
      const isThere = availability.every((source) => render(source.value_template, source.topic) === 'online')
      return isThere ? render(template, on) : 'unavailable'
    },
    async turn(id: string, to: 'on' | 'off'): Promise<void> {
      const { command_topic: on, payload_on: drain, payload_off: undrain } = find(id)
      await client.publishAsync(on ?? '', (to === 'on' ? drain : undrain) ?? '', { qos: 1 })
    },
    [Symbol.asyncDispose]: () => client.endAsync(true),
  }
}
