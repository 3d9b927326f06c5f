import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type EmbeddedBroker, startEmbeddedBroker } from '../../../cloud-bridge/broker/embedded-broker.ts'
import { BridgeLimits } from '../../../cloud-bridge/limits.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { closed, mqttClient, watchTopic } from '../../support/broker.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const topicOf = (leaf: string) => `brim/v1/default/device/a/${leaf}`

describe.each([true, false])('clients with an API key, where proof is required of all: %s', (authRequired) => {
  /** Subject by key; the device has a token. */
  const subjects = new Map([
    ['of-ann', 'operator-ann'],
    ['of-bob', 'viewer-bob'],
    ['of-a', 'device-a'],
    ['of-app', 'client-app'],
  ])
  let broker: EmbeddedBroker
  beforeAll(async () => {
    broker = await startEmbeddedBroker({
      host: '127.0.0.1',
      port: 0,
      fleet: 'default',
      gate: { authRequired, subjectOf: (token) => subjects.get(token) },
      limits: BridgeLimits.parse({}),
      clock: systemClock,
      logger: silentLogger(),
    })
  })
  afterAll(() => broker.close())

  const watch = (username: string, password: string, filter = '#') => watchTopic(broker.url!, filter, { username, password })

  it('receive what their roles may read, whatever they have subscribed to', async () => {
    await using operator = await watch('ann', 'of-ann')
    await using viewer = await watch('bob', 'of-bob')
    await using narrow = await watch('bob-2', 'of-bob', topicOf('events'))
    const device = await mqttClient(broker.url!, 'device-a', { username: 'device-a', password: 'of-a' })
    for (const leaf of ['events', 'telemetry', 'state']) await device.publishAsync(topicOf(leaf), '{}', { qos: 1 })
    const seen = ({ messages }: typeof operator) => messages.map(({ topic }) => topic.split('/').at(-1))
    await expect.poll(() => seen(operator)).toEqual(['events', 'telemetry', 'state'])
    await expect.poll(() => seen(viewer)).toEqual(['telemetry', 'state'])
    expect(seen(narrow)).toEqual([])
    await device.endAsync()
  })

  it('publish nothing', async () => {
    await using all = await watch('ann', 'of-ann')
    const client = await mqttClient(broker.url!, 'ann-2', { username: 'ann-2', password: 'of-ann' })
    const cut = closed(client)
    client.publish(topicOf('commands'), '{}', { qos: 1 }, () => {})
    await cut
    expect(all.messages).toEqual([])
  })

  it('are disconnected once their keys are revoked', async () => {
    subjects.set('of-eve', 'viewer-eve')
    const client = await mqttClient(broker.url!, 'eve', { username: 'eve', password: 'of-eve' })
    const cut = closed(client)
    subjects.delete('of-eve')
    await cut
  })

  it.runIf(authRequired)('need a key that may read', async () => {
    await expect(watch('app', 'of-app')).rejects.toThrow(/not authorized/i)
    await expect(watch('nobody', 'guess')).rejects.toThrow(/not authorized/i)
  })
})
