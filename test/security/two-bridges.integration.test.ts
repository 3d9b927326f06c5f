import { Aedes } from 'aedes'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mayPublish, maySubscribe } from '../../cloud-bridge/identity/acl.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { mqttClient } from '../support/broker.ts'
import { postJson } from '../support/post-json.ts'
import { type ServedBroker, serveBroker } from '../support/served-broker.ts'

/** A broker of its own, which has our access rules and gives each bridge its own login. */
async function startSharedBroker(): Promise<ServedBroker> {
  const broker = await Aedes.createBroker({
    authorizePublish: (client, { topic }, done) =>
      done(mayPublish(client?.id ?? '', topic, 'default') ? null : new Error('refused')),
    authorizeSubscribe: ({ id }, subscription, done) =>
      done(null, maySubscribe(id, subscription.topic, 'default') ? subscription : null),
  })
  return serveBroker(broker)
}

let world: AgentWorld
let broker: ServedBroker
let bridge: TestBridge
/** How far the agent's clock is ahead. */
let aheadMs = 0
beforeAll(async () => {
  world = await startAgentWorld({ adapter: false })
  broker = await startSharedBroker()
  bridge = await startTestBridge({
    id: 'bridge-1',
    bundle: world.bundle,
    stateDir: `${world.dir}/one`,
    broker: { url: broker.url },
  })
  const clock = { nowMs: () => systemClock.nowMs() + aheadMs, sleep: systemClock.sleep }
  await world.startAgent({ id: 'orin', bridges: [broker.url] }, clock)
}, 60_000)
afterAll(async () => {
  await bridge.close()
  await world[Symbol.asyncDispose]()
  await broker[Symbol.asyncDispose]()
})

async function submit(maxTokens: number): Promise<string> {
  const job = { kind: 'hat.generate', device: 'orin', input: { prompt: 'Can you book a table', maxTokens, seed: 3 } }
  const response = await postJson(`${bridge.httpUrl}/v1/jobs`, job)
  return ((await response.json()) as { id: string }).id
}
const jobOf = async (id: string) =>
  (await (await fetch(`${bridge.httpUrl}/v1/jobs/${id}`)).json()) as { state: string; attempt: number; failures: object }

/** Their logins at the broker. */
const [first, second] = ['bridge-bridge-1', 'bridge-bridge-2']

describe('two bridges at one broker, where the rules tell them apart', () => {
  it('the second neither reads nor cancels the jobs of the first by naming it', async () => {
    const client = await mqttClient(broker.url, second)
    const heard: string[] = []
    const states: string[] = []
    client.on('message', (topic, payload) => (topic.endsWith('/state') ? states : heard).push(`${topic} ${payload}`))
    await client.subscribeAsync('brim/v1/default/device/+/+', { qos: 1 })
    for (const filter of ['device/+/+/+', 'device/+/events/+', 'device/orin/events/bridge-1', 'device/orin/#'])
      await client.subscribeAsync(`brim/v1/default/${filter}`, { qos: 1 }).catch(() => {})
    await expect.poll(() => states.at(-1)).toContain('"ownTopics":["bridge-1"]')
    aheadMs = 60_000
    heard.length = 0
    const id = await submit(64)
    const named = { v: 1, bridge: 'bridge-1', job: id, attempt: 1 }
    const forged = [
      ['jobs', JSON.stringify({ ...named, type: 'cancel' })],
      ['acks', JSON.stringify({ ...named, n: 99 })],
    ] as const
    for (let tries = 0; tries < 20; tries++) {
      for (const [leaf, message] of forged) await client.publishAsync(deviceTopic('default', 'orin', leaf), message, { qos: 1 })
      await systemClock.sleep(10)
    }
    await expect.poll(async () => (await jobOf(id)).state).toBe('SUCCEEDED')
    expect(await jobOf(id)).toMatchObject({ attempt: 1, failures: {} })
    const own = forged.map(([leaf, message]) => `${deviceTopic('default', 'orin', leaf)} ${message}`)
    expect(heard.filter((message) => !own.includes(message)).join('\n')).not.toContain(id)
    await client.endAsync(true)
  }, 60_000)

  it('the second cannot publish on the topics of the first', async () => {
    for (const leaf of ['jobs', 'acks', 'commands', 'faults'] as const) {
      expect(mayPublish(second, deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(false)
      expect(mayPublish(first, deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(true)
      expect(maySubscribe('device-orin', deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(true)
      expect(maySubscribe('device-nano', deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(false)
    }
    for (const leaf of ['events', 'replies'] as const) {
      expect(maySubscribe(second, deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(false)
      expect(maySubscribe(second, `brim/v1/default/device/+/${leaf}/+`, 'default')).toBe(false)
      expect(mayPublish('device-orin', deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(true)
      expect(mayPublish('device-nano', deviceTopic('default', 'orin', leaf, 'bridge-1'), 'default')).toBe(false)
    }
  })
})
