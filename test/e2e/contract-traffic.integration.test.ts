import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { seededRandom } from '../../core/kit/base/random.ts'
import { type Channel, channels, dataMessages, type Message } from '../../core/wire/protocol/contract.ts'
import type { JobDetails } from '../../core/wire/protocol/http/jobs.ts'
import { deviceTopic, homeTopic } from '../../core/wire/protocol/topics.ts'
import { portOf, type Relay, startRelay, through } from '../../lab/cluster/relay.ts'
import { startShapedLink } from '../../lab/cluster/shaped-link.ts'
import { webSocketFrames } from '../../lab/cluster/web-socket-payloads.ts'
import { asyncApi, hasRequired, type Schema, variantsOf } from '../../scripts/docs/asyncapi.ts'
import { buildSlmBundle, startAgentWorld } from '../support/agent-world.ts'
import { mqttClient } from '../support/broker.ts'
import { type Check, schemaCompiler, strictly } from '../support/json-schemas.ts'
import { postJson } from '../support/post-json.ts'
import { sha256Of } from '../support/sha256-of.ts'
import { shared } from '../support/shared.ts'

/** A message as a subscriber of all topics received it. */
interface Recorded {
  readonly topic: string
  readonly text: string
  readonly qos: number
  /** Retained before the subscription; live messages do not carry the flag. */
  readonly retain: boolean
}

const world = shared(() => startAgentWorld({ bridge: { homeAssistant: true } }))
let slm: string
let checks: Map<string, Check>
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
  const compile = await schemaCompiler()
  const { schemas } = asyncApi().components
  checks = new Map(Object.entries(schemas).map(([name, schema]) => [name, compile(strictly(schema as Schema))]))
})

async function record() {
  const client = await mqttClient(world.bridge.mqttUrl, `recorder-${Math.random().toString(36).slice(2)}`)
  const recorded: Recorded[] = []
  client.on('message', (topic, payload, { qos, retain }) => recorded.push({ topic, text: payload.toString(), qos, retain }))
  // QoS 2: every message arrives with the QoS of its publication.
  await client.subscribeAsync('brim/v1/#', { qos: 2 })
  return { recorded, [Symbol.asyncDispose]: () => client.endAsync(true) }
}

/** A link with a round trip of 100 ms. */
function startSlow(target: number) {
  const way = { rates: { intervalMs: 1_000, bytesPerS: [1e6] }, delayMs: 50, jitterMs: 0 }
  return startShapedLink({ target, shape: { up: way, down: way }, random: seededRandom(1) })
}

const isOn = (channel: Channel, topic: string) =>
  new RegExp(`^${channel.address.replaceAll(/\{\w+\}/g, '[a-z0-9_-]+')}$`).test(topic)

/** The message's name in the document. @throws Error when it matches none */
function documentedName(message: Message, text: string): string {
  const json = JSON.parse(text) as { type?: string }
  const variants = variantsOf(message)
  const variant = variants.find(({ types, schema }) =>
    types.length === 0 ? variants.length === 1 || hasRequired(schema, json) : types.some((type) => type === json.type),
  )
  if (!variant) throw new Error(`${message.name} has no type "${json.type}"`)
  expect(checks.get(variant.name)!(json), `${variant.name}: ${text}`).toEqual([])
  return variant.name
}

function channelOf(topic: string): Channel {
  const [channel, ...more] = channels.filter((one) => isOn(one, topic))
  if (!channel || more.length > 0) throw new Error(`${topic} is ${channel ? 'twice' : 'not'} in the contract`)
  return channel
}

async function post(path: string, body: object = {}): Promise<{ id: string }> {
  const response = await postJson(`${world.bridge.httpUrl}/v1/jobs${path}`, body)
  return (await response.json()) as { id: string }
}
const submit = async (device: string, maxTokens: number, kind = 'slm.generate') =>
  (await post('', { kind, device, input: { prompt: 'Can you book a table', maxTokens, seed: 3 } })).id
const stateOf = async (id: string) => ((await (await fetch(`${world.bridge.httpUrl}/v1/jobs/${id}`)).json()) as JobDetails).state
const ended = (id: string, state: string) => expect.poll(() => stateOf(id)).toBe(state)

it('documents every message on the control plane, and nothing that does not occur', async () => {
  await using recorder = await record()
  const { recorded } = recorder
  await using relay = await startRelay(portOf(world.bridge.mqttUrl))
  await using slow = await startSlow(portOf(world.bridge.dataUrl))
  const has = (device: string, leaf: Parameters<typeof deviceTopic>[2], words: RegExp) =>
    expect
      .poll(
        () => recorded.filter(({ topic, text }) => topic === deviceTopic('default', device, leaf) && words.test(text)).length,
        {
          timeout: 20_000,
        },
      )
      .toBeGreaterThan(0)

  // Starts, telemetry, and jobs with every outcome.
  const able = await world.startAgent({ id: 'jetson-02', slms: [slm], bridges: [through(relay, world.bridge.mqttUrl)] })
  await has('jetson-02', 'state', /ready/)
  await has('jetson-02', 'telemetry', /birth/)
  await ended(await submit('jetson-02', 12), 'SUCCEEDED')
  await ended(await submit('jetson-01', 12), 'REJECTED')
  const answer = await post('', { kind: 'profile', input: {}, device: 'jetson-02' })
  await ended(answer.id, 'SUCCEEDED')
  const sketches = [{ prompt: 'What is a lamp?', sketch: ['gives light'], expectedTokens: 20 }]
  await ended((await post('', { kind: 'pice.expand', input: { sketches }, device: 'jetson-02' })).id, 'SUCCEEDED')
  // On a slow link an answer arrives in pieces, and the job after it waits.
  await world.startAgent({ id: 'jetson-04', dataUrl: world.bridge.dataUrl.replace(/:\d+/, `:${slow.port}`) })
  await has('jetson-04', 'state', /ready/)
  const first = await submit('jetson-04', 16, 'hat.generate')
  const second = await submit('jetson-04', 16, 'hat.generate')
  await has('jetson-04', 'events', /"type":"text"/)
  await post(`/${second}/cancel`)
  await ended(first, 'SUCCEEDED')
  await ended(second, 'CANCELED')
  await has('jetson-04', 'events', /"type":"canceled"/)

  // A bundle of the bridge, and remote commands of an operator.
  const input = { modelId: world.bridge.modelId, manifestSha256: sha256Of(join(world.bundle, 'manifest.json')) }
  await ended((await post('', { kind: 'bundle.install', input, device: 'jetson-02' })).id, 'SUCCEEDED')
  for (const command of [{ type: 'drain' }, { type: 'undrain' }, { type: 'logs', level: 'info', forS: 60 }]) {
    const path = `${world.bridge.httpUrl}/v1/devices/jetson-02/commands`
    const accepted = (await (await postJson(path, command)).json()) as {
      id: string
    }
    await has('jetson-02', 'replies', new RegExp(`${accepted.id}.*done`))
  }
  await ended(await submit('jetson-02', 12), 'SUCCEEDED')
  await has('jetson-02', 'log', /job ended/)
  const home = await mqttClient(world.bridge.mqttUrl, 'home-assistant')
  await home.publishAsync(homeTopic('default', 'bridge-1', 'drain', 'jetson-01'), '{"v":1,"type":"undrain"}', { qos: 1 })
  await has('jetson-01', 'replies', /done/)
  await home.endAsync()

  // An invalid message.
  const garbled = await mqttClient(world.bridge.mqttUrl, 'device-garbled')
  await garbled.publishAsync(deviceTopic('default', 'garbled', 'telemetry'), '{"v":2}')
  await has('garbled', 'faults', /telemetry/)
  await garbled.endAsync()

  // A power cut, and a restart.
  relay.cut()
  await has('jetson-02', 'state', /lost/)
  const states = () => recorded.filter(({ topic }) => topic === deviceTopic('default', 'jetson-02', 'state'))
  await expect.poll(() => states().at(-1)?.text).toMatch(/ready/)
  await able.close()
  await has('jetson-02', 'state', /disconnected/)
  await world.startAgent({ id: 'jetson-02', slms: [slm], bridges: [through(relay, world.bridge.mqttUrl)] })
  await has('jetson-02', 'state', /"birth":2/)

  const readable = recorded.filter(({ topic }) => topic !== deviceTopic('default', 'garbled', 'telemetry'))
  const seen = readable.map(({ topic, text, qos, retain }) => {
    const channel = channelOf(topic)
    expect({ topic, qos }).toEqual({ topic, qos: channel.qos })
    if (retain) expect(channel.retain, `${topic} is retained`).toBe(true)
    return documentedName(channel.message, text)
  })
  const all = channels.flatMap(({ message }) => variantsOf(message).map(({ name }) => name))
  expect(all.filter((name) => !seen.includes(name))).toEqual([])

  // A late subscriber receives the retained messages, and only those.
  await using late = await record()
  const retaining = channels.filter(({ retain }) => retain)
  await expect
    .poll(() => retaining.filter((channel) => !late.recorded.some(({ topic, retain }) => retain && isOn(channel, topic))))
    .toEqual([])
  expect(late.recorded.filter(({ topic, retain }) => retain && !channelOf(topic).retain)).toEqual([])
})

it('documents every JSON message of the data plane', async () => {
  await using relay: Relay = await startRelay(portOf(world.bridge.dataUrl))
  const agent = await world.startAgent({ id: 'jetson-03', dataUrl: through(relay, world.bridge.dataUrl) })
  const ask = async () => {
    const body = { messages: [{ role: 'user', content: 'Can you book a table for two, in the evening?' }], max_tokens: 12 }
    const response = await postJson(`${agent.apiUrl}/v1/chat/completions`, body)
    expect(response.status).toBe(200)
    await response.text()
  }
  await ask()
  await ask()
  await agent.close()
  const sent = (direction: 'up' | 'down', message: Message) =>
    relay.connections
      .flatMap((connection) => webSocketFrames(Buffer.concat(connection[direction])))
      .filter(({ isText }) => isText)
      .map(({ payload }) => documentedName(message, payload.toString()))
  expect(sent('up', dataMessages.device)).toEqual(expect.arrayContaining(['ToBridge.hello', 'ToBridge.open', 'ToBridge.close']))
  expect(sent('down', dataMessages.bridge)).toEqual(
    expect.arrayContaining(['ToDevice.welcome', 'ToDevice.opened', 'ToDevice.kept']),
  )
})
