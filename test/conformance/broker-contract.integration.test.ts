import type { IClientOptions, MqttClient } from 'mqtt'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../core/kit/base/clock.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { closed, packetLimitBytes, powerCut } from '../support/broker.ts'
import { type ContractBroker, contractBrokers, joinBroker } from '../support/contract-broker.ts'

/**
 * What agents and bridge rely on at every broker. docs/brokers.md states the results.
 */
const stateOf = (device: string) => deviceTopic('default', device, 'state')
const eventsOf = (device: string) => deviceTopic('default', device, 'events')
const jobsOf = (device: string) => deviceTopic('default', device, 'jobs')
const retained = { qos: 1, retain: true } as const
const refused = /not authorized/i

interface Delivered {
  readonly topic: string
  readonly text: string
  readonly retain: boolean
}

describe.each(contractBrokers.filter(({ missing }) => !missing))('on $name', ({ start, keeps, limitsSize }) => {
  let broker: ContractBroker
  beforeAll(async () => {
    broker = await start()
  })
  afterAll(() => broker?.[Symbol.asyncDispose]())

  const last = () => broker.nodes.length - 1
  async function device(id: string, { node = 0, ...options }: IClientOptions & { node?: number } = {}): Promise<MqttClient> {
    return joinBroker(broker.nodes[node]!, `device-${id}`, await broker.admit(id), options)
  }
  /** The bridge, subscribed to these filters. It is one client: another call takes the first one's place. */
  async function bridge(filters: readonly string[], node = last()) {
    const client = await joinBroker(broker.nodes[node]!, 'bridge-bridge-1', broker.control.login!)
    const messages: Delivered[] = []
    client.on('message', (topic, payload, { retain }) => messages.push({ topic, text: payload.toString(), retain }))
    await client.subscribeAsync([...filters], { qos: broker.control.login?.subscribeQos ?? 1 })
    /** What is published from now on. */
    const texts = () => messages.filter(({ retain }) => !retain).map(({ text }) => text)
    return { client, messages, texts, [Symbol.asyncDispose]: () => client.endAsync(true) }
  }
  const allStates = 'brim/v1/default/device/+/state'
  /** The device's state that a bridge gets which connects now. */
  async function stateAtReturn(id: string, node?: number): Promise<string | undefined> {
    // The states of all devices come in one go: soon after that of a device that has just published, they have come.
    const probe = await device('probe')
    await probe.publishAsync(stateOf('probe'), 'here', retained)
    await using late = await bridge([allStates], node)
    await expect.poll(() => late.messages.some(({ topic }) => topic === stateOf('probe'))).toBe(true)
    await systemClock.sleep(200)
    await probe.endAsync(true)
    return late.messages.find(({ topic }) => topic === stateOf(id))?.text
  }

  it('acknowledged publications arrive once and in the order of their topic', async () => {
    await using receiver = await bridge(['brim/v1/default/device/+/events'])
    const sender = await device('orderly')
    const texts = Array.from({ length: 300 }, (_, at) => `event ${at}`)
    await Promise.all(texts.map((text) => sender.publishAsync(eventsOf('orderly'), text, { qos: 1 })))
    await expect.poll(() => receiver.messages.length).toBe(texts.length)
    expect(receiver.texts()).toEqual(texts)
    await sender.endAsync(true)
  })

  it('a job reaches the device that it is for', async () => {
    await using sender = await bridge([allStates])
    const receiver = await device('worker')
    const received: string[] = []
    receiver.on('message', (_, payload) => received.push(payload.toString()))
    await receiver.subscribeAsync(jobsOf('worker'), { qos: broker.control.login?.subscribeQos ?? 1 })
    await sender.client.publishAsync(jobsOf('worker'), 'job', { qos: 1 })
    await expect.poll(() => received).toEqual(['job'])
    await receiver.endAsync(true)
  })

  it('a retained state is delivered to a new subscriber, the last one, until an empty payload clears it', async () => {
    const sender = await device('kept')
    for (const text of ['first', 'second']) await sender.publishAsync(stateOf('kept'), text, retained)
    await expect.poll(() => stateAtReturn('kept')).toBe('second')
    await sender.publishAsync(stateOf('kept'), '', retained)
    await expect.poll(() => stateAtReturn('kept')).toBeUndefined()
    await sender.endAsync(true)
  })

  it('a will is published, and retained, when the device is gone without a word; not after a farewell', async () => {
    await using receiver = await bridge([allStates])
    const will = (id: string) => ({ topic: stateOf(id), payload: Buffer.from(`${id} lost`), ...retained })
    const cut = await device('cut', { will: will('cut') })
    await cut.publishAsync(stateOf('cut'), 'cut ready', retained)
    const polite = await device('polite', { will: will('polite') })
    await polite.publishAsync(stateOf('polite'), 'polite ready', retained)
    await polite.endAsync()
    powerCut(cut)
    await expect.poll(() => receiver.texts()).toContain('cut lost')
    expect(receiver.texts()).not.toContain('polite lost')
    await expect.poll(() => stateAtReturn('cut')).toBe('cut lost')
    expect(await stateAtReturn('polite')).toBe('polite ready')
  })

  it('a device uses its own topics only: not those of others to subscribe, to publish or for its will', async () => {
    await using receiver = await bridge([allStates])
    const will = { topic: stateOf('victim'), payload: Buffer.from('forged'), ...retained }
    const withWill = await device('nosy', { will }).catch(() => undefined)
    if (withWill) powerCut(withWill)
    for (const filter of ['#', 'brim/#', '$SYS/#', allStates, stateOf('victim'), jobsOf('victim'), 'brim/v1/default/bridge/#']) {
      const client = await device('nosy')
      await expect(client.subscribeAsync(filter, { qos: broker.control.login?.subscribeQos ?? 1 }), filter).rejects.toThrow()
      await client.endAsync(true)
    }
    const forger = await device('nosy')
    for (const topic of [stateOf('victim'), jobsOf('nosy')]) forger.publish(topic, 'forged', retained, () => {})
    const honest = await device('honest')
    await honest.publishAsync(stateOf('honest'), 'honest', retained)
    await expect.poll(() => receiver.texts()).toContain('honest')
    expect(receiver.texts()).not.toContain('forged')
    expect(await stateAtReturn('victim')).toBeUndefined()
    await Promise.all([forger, honest].map((client) => client.endAsync(true)))
  })

  it('no client is admitted without a login', async () => {
    const node = broker.nodes[0]!
    for (const password of ['', 'guess']) await expect(joinBroker(node, 'device-owner', { password })).rejects.toThrow(refused)
  })

  it('a device cannot take the place of another, or of the bridge', async () => {
    await using receiver = await bridge([allStates])
    const owner = await device('owner')
    const login = await broker.admit('thief')
    for (const clientId of ['device-owner', 'bridge-bridge-1'])
      await joinBroker(broker.nodes[0]!, 'device-thief', { ...login, clientId }).then(
        (thief) => thief.endAsync(true),
        (error: Error) => expect(error.message).toMatch(refused),
      )
    await owner.publishAsync(stateOf('owner'), 'here', retained)
    await expect.poll(() => receiver.texts()).toEqual(['here'])
    await owner.endAsync(true)
  })

  it('a device is disconnected within 5 s of its revocation, everywhere, and admitted with a new password only', async () => {
    await using receiver = await bridge([allStates])
    const login = await broker.admit('stolen')
    const will = { topic: stateOf('stolen'), payload: Buffer.from('stolen lost'), ...retained }
    const client = await joinBroker(broker.nodes[0]!, 'device-stolen', login, { will })
    await client.publishAsync(stateOf('stolen'), 'stolen ready', retained)
    const cut = closed(client)
    const startedMs = performance.now()
    broker.revoke('stolen')
    await cut
    expect(performance.now() - startedMs).toBeLessThan(5_000)
    for (const node of broker.nodes) await expect(joinBroker(node, 'device-stolen', login)).rejects.toThrow(refused)
    const again = await device('stolen')
    await again.publishAsync(stateOf('stolen'), 'stolen back', retained)
    await expect.poll(() => receiver.texts().at(-1)).toBe('stolen back')
    await again.endAsync(true)
  })

  it('a message at the limit is delivered; one beyond it only where the broker has no limit', async () => {
    await using receiver = await bridge([allStates])
    const sender = await device('large')
    await sender.publishAsync(stateOf('large'), Buffer.alloc(packetLimitBytes - 100, 0x61), { qos: 1 })
    await expect.poll(() => receiver.texts()[0]?.length).toBe(packetLimitBytes - 100)
    const sent = sender.publishAsync(stateOf('large'), Buffer.alloc(packetLimitBytes + 1, 0x61), { qos: 1 })
    await (limitsSize ? expect(sent).rejects.toThrow() : sent)
    const next = await device('large')
    await next.publishAsync(stateOf('large'), 'small', { qos: 1 })
    await expect.poll(() => receiver.texts().at(-1)).toBe('small')
    expect(receiver.texts()).toHaveLength(limitsSize ? 2 : 3)
    await next.endAsync(true)
  })

  it('a device that connects again, at any node, takes the place of its earlier connection', async () => {
    await using receiver = await bridge(['brim/v1/default/device/+/events'])
    const login = await broker.admit('twice')
    const before = await joinBroker(broker.nodes[0]!, 'device-twice', login)
    const cut = closed(before)
    const after = await joinBroker(broker.nodes[last()]!, 'device-twice', login)
    await cut
    await after.publishAsync(eventsOf('twice'), 'after', { qos: 1 })
    await expect.poll(() => receiver.texts()).toEqual(['after'])
    await after.endAsync(true)
  })

  it('a restart brings back the states of yesterday only where the broker keeps them', async () => {
    const other = await device('yesterday')
    await other.publishAsync(stateOf('yesterday'), 'yesterday', retained)
    await expect.poll(() => stateAtReturn('yesterday')).toBe('yesterday')
    await other.endAsync()
    await broker.restart()
    expect(await stateAtReturn('yesterday')).toBe(keeps ? 'yesterday' : undefined)
  })
})
