import { expect, it } from 'vitest'
import { unreadSubscriber } from '../../lab/attack/mqtt-floods.ts'
import { connectRaw, deviceLogin, publishPacket, stateTopicOf, subscribePacket } from '../../lab/attack/raw-mqtt.ts'
import { closed, mqttClient, startBroker, watchTopic } from '../support/broker.ts'
import { recordingLogger } from '../support/recording-logger.ts'

const never = new AbortController().signal
const targetOf = ({ url }: { url: string }) => ({ mqttUrl: url, httpUrl: '', dataUrl: '' })
const attackerTopic = stateTopicOf('attacker')

it('a subscriber that does not read delays no message of others, and is disconnected', async () => {
  const { logger, lines } = recordingLogger('warn')
  await using broker = await startBroker({ logger })
  const honest = await mqttClient(broker.url, 'device-honest')
  await honest.subscribeAsync(stateTopicOf('honest'), { qos: 1 })
  const stop = new AbortController()
  const attack = unreadSubscriber.run(targetOf(broker), stop.signal)
  const isCut = () => lines.some(({ reason }) => /bytes are unread/.test(String(reason)))
  let slowestMs = 0
  const deadline = performance.now() + 15_000
  for (let n = 0; !isCut() && performance.now() < deadline; n++) {
    const sentMs = performance.now()
    const delivered = new Promise((resolve) => honest.once('message', resolve))
    await honest.publishAsync(stateTopicOf('honest'), `${n}`, { qos: 1 })
    await delivered
    slowestMs = Math.max(slowestMs, performance.now() - sentMs)
  }
  stop.abort()
  await attack
  expect(isCut()).toBe(true)
  expect(slowestMs).toBeLessThan(2_000)
  await honest.endAsync()
})

it('a client that sends too fast is read later, and loses nothing', async () => {
  const { logger, lines } = recordingLogger('warn')
  await using broker = await startBroker({ logger, limits: { mqttPacketsPerS: 50, mqttBurstS: 1 } })
  await using watcher = await watchTopic(broker.url, attackerTopic)
  const startedMs = performance.now()
  const device = await mqttClient(broker.url, 'device-attacker')
  const texts = Array.from({ length: 125 }, (_, n) => `state ${n}`)
  await Promise.all(texts.map((text) => device.publishAsync(attackerTopic, text, { qos: 1 })))
  // 50 at once, then 50 each second.
  expect(performance.now() - startedMs).toBeGreaterThan(1_400)
  await expect.poll(() => watcher.messages.map(({ text }) => text)).toEqual(texts)
  expect(lines).toContainEqual(
    expect.objectContaining({ msg: 'MQTT client slowed: it exceeds its rate', client: 'device-attacker' }),
  )
  await device.endAsync()
})

it('the bytes of a client are limited as its packets are', async () => {
  await using broker = await startBroker({ limits: { mqttBytesPerS: 100_000, mqttBurstS: 1 } })
  const startedMs = performance.now()
  const device = await mqttClient(broker.url, 'device-attacker')
  for (let n = 0; n < 5; n++) await device.publishAsync(attackerTopic, Buffer.alloc(50_000), { qos: 1 })
  expect(performance.now() - startedMs).toBeGreaterThan(900)
  await device.endAsync()
})

it('a client has a limited number of subscriptions, and learns which are refused', async () => {
  await using broker = await startBroker({ limits: { mqttSubscriptions: 3 } })
  const device = await mqttClient(broker.url, 'device-attacker')
  const filters = Array.from({ length: 5 }, (_, n) => `brim/v1/default/bridge/b${n}/state`)
  const granted: number[] = []
  for (const filter of filters)
    granted.push(
      await device.subscribeAsync(filter).then(
        ([grant]) => grant!.qos,
        () => 128,
      ),
    )
  expect(granted).toEqual([0, 0, 0, 128, 128])
  // A subscription that ends makes room for another.
  await device.unsubscribeAsync(filters[0]!)
  expect(await device.subscribeAsync(filters[4]!)).toMatchObject([{ qos: 0 }])
  await device.endAsync()
})

it('a client id connects a limited number of times per minute; others are not affected', async () => {
  await using broker = await startBroker({ limits: { mqttConnectsPerMinute: 2 } })
  for (let n = 0; n < 2; n++) await (await mqttClient(broker.url, 'device-attacker')).endAsync()
  await expect(mqttClient(broker.url, 'device-attacker')).rejects.toThrow(/Server unavailable/)
  await (await mqttClient(broker.url, 'device-honest')).endAsync()
})

it('retained messages have a limited memory', async () => {
  await using broker = await startBroker({ limits: { mqttRetainedBytes: 4_096 } })
  const device = await mqttClient(broker.url, 'device-attacker')
  for (let n = 0; n < 10; n++) await device.publishAsync(attackerTopic, Buffer.alloc(3_000), { qos: 1, retain: true })
  const other = await mqttClient(broker.url, 'device-other')
  const cut = closed(other)
  other.publish(stateTopicOf('other'), Buffer.alloc(3_000), { retain: true })
  await cut
  // Deleting its message frees the memory.
  await device.publishAsync(attackerTopic, '', { qos: 1, retain: true })
  const again = await mqttClient(broker.url, 'device-other')
  await again.publishAsync(stateTopicOf('other'), Buffer.alloc(3_000), { qos: 1, retain: true })
  await Promise.all([device.endAsync(), again.endAsync()])
})

it('a client has a limited number of incomplete QoS 2 messages', async () => {
  await using broker = await startBroker()
  const attacker = await connectRaw(broker.url, deviceLogin(targetOf(broker)), never)
  attacker.socket.resume()
  const cut = new Promise((resolve) => attacker.socket.once('close', resolve))
  for (let id = 1; id <= 17; id++) await attacker.send(publishPacket(attackerTopic, Buffer.from('x'), { qos: 2, id }))
  await cut
})

it('a client that publishes and disconnects at once loses nothing', async () => {
  await using broker = await startBroker()
  await using watcher = await watchTopic(broker.url, attackerTopic)
  const { socket } = await connectRaw(broker.url, deviceLogin(targetOf(broker)), never)
  const texts = Array.from({ length: 500 }, (_, n) => `state ${n}`)
  socket.end(Buffer.concat(texts.map((text) => publishPacket(attackerTopic, Buffer.from(text)))))
  await expect.poll(() => watcher.messages.map(({ text }) => text)).toEqual(texts)
})

it('a packet other than PUBLISH is small', async () => {
  await using broker = await startBroker()
  const attacker = await connectRaw(broker.url, deviceLogin(targetOf(broker)), never)
  const cut = new Promise((resolve) => attacker.socket.once('close', resolve))
  attacker.socket.resume()
  await attacker.send(subscribePacket('x'.repeat(20_000)))
  await cut
  await expect(connectRaw(broker.url, { clientId: 'x'.repeat(65_000) }, never)).rejects.toThrow(/CONNACK missing/)
  await expect(connectRaw(broker.url, { clientId: 'x'.repeat(1_000) }, never)).rejects.toThrow(/CONNACK 2/)
})

it('what clients send does not fill the log', async () => {
  const { logger, lines } = recordingLogger('warn')
  await using broker = await startBroker({ logger, limits: { mqttSubscribesPerS: 1_000 } })
  const device = await mqttClient(broker.url, 'device-attacker')
  for (let n = 0; n < 30; n++) await device.subscribeAsync(`not-allowed/${n}/${'x'.repeat(4_000)}`).catch(() => {})
  for (let n = 0; n < 30; n++) {
    const other = await connectRaw(broker.url, { clientId: `device-${n}` }, never)
    const cut = new Promise((resolve) => other.socket.resume().once('close', resolve))
    await other.send(publishPacket(`not-allowed/${'x'.repeat(4_000)}`, Buffer.alloc(1_000)))
    await cut
  }
  const logged = JSON.stringify(lines)
  expect(logged).toContain('not-allowed')
  expect(lines.length).toBeLessThan(25)
  expect(logged.length).toBeLessThan(15_000)
  await device.endAsync()
})
