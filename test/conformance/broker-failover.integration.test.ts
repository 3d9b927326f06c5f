import { afterAll, beforeAll, expect, it } from 'vitest'
import { systemClock } from '../../core/kit/base/clock.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { type ContractBroker, contractBrokers, joinBroker } from '../support/contract-broker.ts'

/** What a broker of several nodes promises while one of them is away. */
const kind = contractBrokers.at(-1)!
const stateOf = (device: string) => deviceTopic('default', device, 'state')
const eventsOf = (device: string) => deviceTopic('default', device, 'events')
const refused = /not authorized/i

let broker: ContractBroker
beforeAll(async () => {
  if (!kind.missing) broker = await kind.start()
})
afterAll(() => broker?.[Symbol.asyncDispose]())

const publishedStates = async (node: string): Promise<Map<string, string>> => {
  const client = await joinBroker(node, 'bridge-bridge-1', broker.control.login!)
  const states = new Map<string, string>()
  client.on('message', (topic, payload) => states.set(topic, payload.toString()))
  await client.subscribeAsync('brim/v1/default/device/+/state', { qos: 0 })
  await systemClock.sleep(200)
  await client.endAsync(true)
  return states
}

it.skipIf(kind.missing)('what is acknowledged while a node is killed and returns arrives, once and in order', async () => {
  const receiver = await joinBroker(broker.nodes[2]!, 'bridge-bridge-1', broker.control.login!)
  const received: string[] = []
  receiver.on('message', (_, payload) => received.push(payload.toString()))
  await receiver.subscribeAsync('brim/v1/default/device/+/events', { qos: 0 })
  const login = await broker.admit('steady')
  let sender = await joinBroker(broker.nodes[1]!, 'device-steady', login)
  const acknowledged: string[] = []
  const stop = new AbortController()
  const sending = (async () => {
    for (let at = 0; !stop.signal.aborted; at++) {
      try {
        await sender.publishAsync(eventsOf('steady'), `event ${at}`, { qos: 1 })
        acknowledged.push(`event ${at}`)
        await systemClock.sleep(10)
      } catch {
        // While no node leads, NATS may close the connection in place of an acknowledgement.
        sender = await joinBroker(broker.nodes[1]!, 'device-steady', login)
      }
    }
  })()
  const untilMore = async () => {
    const before = acknowledged.length
    await expect.poll(() => acknowledged.length).toBeGreaterThan(before + 20)
  }
  await untilMore()
  await broker.killNode(0)
  await untilMore()
  await broker.startNode(0)
  await untilMore()
  stop.abort()
  await sending
  const isAcknowledged = new Set(acknowledged)
  await expect.poll(() => received.filter((text) => isAcknowledged.has(text))).toEqual(acknowledged)
  await Promise.all([receiver, sender].map((client) => client.endAsync(true)))
})

it.skipIf(kind.missing)(
  'a device of a killed node goes on at another, and every node retains what it publishes then',
  async () => {
    const login = await broker.admit('moving')
    const before = await joinBroker(broker.nodes[0]!, 'device-moving', login)
    await before.publishAsync(stateOf('moving'), 'before', { qos: 1, retain: true })
    await broker.killNode(0)
    const after = await joinBroker(broker.nodes[1]!, 'device-moving', login)
    // As its heartbeat does.
    const publish = () => after.publishAsync(stateOf('moving'), 'after', { qos: 1, retain: true })
    for (const node of [1, 2, 0]) {
      if (node === 0) await broker.startNode(0)
      await expect
        .poll(async () => {
          await publish()
          return (await publishedStates(broker.nodes[node]!)).get(stateOf('moving'))
        })
        .toBe('after')
    }
    await after.endAsync(true)
  },
)

it.skipIf(kind.missing)('a node that returns refuses whom the bridge has revoked meanwhile', async () => {
  const login = await broker.admit('stolen')
  await (await joinBroker(broker.nodes[2]!, 'device-stolen', login)).endAsync()
  await broker.killNode(2)
  broker.revoke('stolen')
  await expect.poll(() => joinBroker(broker.nodes[0]!, 'device-stolen', login).then(() => 'admitted', String)).toMatch(refused)
  await broker.startNode(2)
  await expect
    .poll(() =>
      joinBroker(broker.nodes[2]!, 'device-stolen', login).then((client) => client.endAsync().then(() => 'admitted'), String),
    )
    .toMatch(refused)
})
