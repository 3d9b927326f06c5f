import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { generate } from 'mqtt-packet'
import { describe, expect, it } from 'vitest'
import { startEmbeddedBroker } from '../../../cloud-bridge/broker/embedded-broker.ts'
import { PacketGauge, type PacketHeader } from '../../../cloud-bridge/broker/packet-gauge.ts'
import { mayPublish, roleOf } from '../../../cloud-bridge/identity/acl.ts'
import { BridgeLimits } from '../../../cloud-bridge/limits.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { isLoopback } from '../../../core/kit/base/loopback.ts'
import { closed, mqttClient, startBroker, watchTopic } from '../../support/broker.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const options = { limits: BridgeLimits.parse({}), fleet: 'default', clock: systemClock, logger: silentLogger() }
const stateOf = (device: string) => `brim/v1/default/device/${device}/state`

describe('the permission to publish', () => {
  it.each([
    ['device-a', stateOf('a'), true],
    ['device-a', 'brim/v1/default/device/a/telemetry', true],
    ['device-a', stateOf('b'), false],
    ['device-a', 'brim/v1/default/device/a/jobs', false],
    ['device-a', 'brim/v1/default/device/a/acks', false],
    ['device-a', 'brim/v1/default/bridge/a/state', false],
    ['device-a', 'other/topic', false],
    ['device-a', 'brim/v1/other/device/a/state', false],
    ['bridge-b', 'brim/v1/other/bridge/b/state', false],
    ['bridge-b', 'brim/v1/other/device/a/commands', false],
    ['device-a', '$SYS/broker', false],
    ['bridge-b', 'brim/v1/default/bridge/b/state', true],
    ['bridge-b', 'brim/v1/default/bridge/c/state', false],
    ['bridge-b', 'brim/v1/default/device/a/commands', true],
    ['bridge-b', stateOf('a'), false],
    ['mosquitto_sub', stateOf('a'), false],
    ['device-A/../b', stateOf('b'), false],
  ])('of %s on %s: %s', (clientId, topic, allowed) => {
    expect(mayPublish(clientId, topic, 'default')).toBe(allowed)
  })

  it('of a device never extends to the topics of another', () => {
    const id = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,8}[a-z0-9])?$/)
    fc.assert(fc.property(id, id, (own, other) => mayPublish(`device-${own}`, stateOf(other), 'default') === (own === other)))
    fc.assert(
      fc.property(fc.string(), (clientId) => clientId.startsWith('device-') || !mayPublish(clientId, stateOf('a'), 'default')),
    )
    expect(roleOf('device-')).toEqual({ kind: 'watcher' })
  })
})

describe('the embedded broker', () => {
  it('disconnects a device that publishes under another id, and does not deliver the message', async () => {
    await using broker = await startBroker()
    await using watcher = await watchTopic(broker.url, '#')
    const device = await mqttClient(broker.url, 'device-a')
    const cut = closed(device)
    device.publish(stateOf('b'), 'forged')
    await cut
    const other = await mqttClient(broker.url, 'device-b')
    await other.publishAsync(stateOf('b'), 'own', { qos: 1 })
    await expect.poll(() => watcher.messages.map((message) => message.text)).toEqual(['own'])
    await other.endAsync()
  })

  it('serves only the topics of its own fleet', async () => {
    await using broker = await startBroker()
    const own = 'brim/v1/default/bridge/+/state'
    for (const client of ['device-a', 'bridge-b']) {
      const foreign = await mqttClient(broker.url, client)
      await foreign.subscribeAsync(own)
      await expect(foreign.subscribeAsync('brim/v1/other/bridge/+/state')).rejects.toThrow()
      const cut = closed(foreign)
      foreign.publish(`brim/v1/other/${client.replace('-', '/')}/state`, 'smuggled')
      await cut
    }
    const will = { topic: 'brim/v1/other/device/a/state', payload: Buffer.from('lost'), qos: 1, retain: true } as const
    await expect(mqttClient(broker.url, 'device-a', { will })).rejects.toThrow(/not authorized/i)
  })

  it('refuses a connection with a will on the topic of another device', async () => {
    await using broker = await startBroker()
    const will = { topic: stateOf('b'), payload: Buffer.from('lost'), qos: 1, retain: true } as const
    await expect(mqttClient(broker.url, 'device-a', { will })).rejects.toThrow(/not authorized/i)
  })

  it('admits clients at a bounded rate, and refuses those for whom the wait would be too long', async () => {
    await using broker = await startBroker({ limits: { mqttConnectsPerS: 10, mqttConnectWaitS: 0 } })
    const connects = Array.from({ length: 40 }, (_, index) => mqttClient(broker.url, `device-d${index}`))
    const settled = await Promise.allSettled(connects)
    const reasons = settled.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
    // One at once, ten that wait, and one more for each 100 ms in which the others arrive.
    expect(reasons.length).toBeLessThanOrEqual(29)
    expect([...new Set(reasons)]).toEqual([expect.stringContaining('Server unavailable')])
    for (const one of settled) if (one.status === 'fulfilled') one.value.end(true)
  })

  it('a connection whose client has given up does not take over the one that it has opened since', async () => {
    await using broker = await startBroker()
    const client = await mqttClient(broker.url, 'device-a')
    const before = connect(Number(new URL(broker.url).port), '127.0.0.1')
    before.end(
      generate({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, clientId: 'device-a', keepalive: 60 }),
    )
    before.resume()
    await once(before, 'close')
    await client.publishAsync(stateOf('a'), '{}', { qos: 1 })
    expect(client.connected).toBe(true)
    await client.endAsync()
  })

  it('disconnects a client that announces a packet above the limit', async () => {
    await using broker = await startBroker()
    const socket = connect(Number(new URL(broker.url).port), '127.0.0.1')
    await once(socket, 'connect')
    socket.on('error', () => {})
    const closing = new Promise((resolve) => socket.once('close', resolve))
    // A PUBLISH that announces 200 MB, without its body.
    socket.write(Buffer.from([0x30, 0x80, 0x84, 0xaf, 0x5f]))
    await closing
    expect(socket.bytesRead).toBe(0)
    const other = await mqttClient(broker.url, 'device-a')
    expect(other.connected).toBe(true)
    await other.endAsync()
  })

  it('names the port that is in use, and the flag that changes it', async () => {
    await using broker = await startBroker()
    const port = Number(new URL(broker.url).port)
    const again = startEmbeddedBroker({ ...options, host: '127.0.0.1', port })
    await expect(again).rejects.toMatchObject({ code: 'LISTEN_FAILED', hint: expect.stringContaining('--mqtt-port') })
    await expect(again).rejects.toThrow(`127.0.0.1:${port}: the port is in use`)
  })

  it.each(['0.0.0.0', '::', '192.168.1.5', '127.0.0.1.example.org'])('refuses to listen on %s', async (host) => {
    const start = startEmbeddedBroker({ ...options, host, port: 0 })
    await expect(start).rejects.toMatchObject({ code: 'LISTEN_REFUSED' })
  })

  it('recognises loopback addresses', () => {
    expect(['127.0.0.1', '127.1.2.3', '::1', 'localhost'].every(isLoopback)).toBe(true)
    expect(['', '10.0.0.1', '127.0.0.256', '1127.0.0.1', '127.0.0', 'localhost.evil'].some(isLoopback)).toBe(false)
  })
})

describe('the packet gauge', () => {
  /** The bytes of a packet with a body of `bytes`. */
  const packet = (bytes: number): number[] => {
    const length: number[] = []
    let rest = bytes
    do {
      length.push((rest % 128) + (rest >= 128 ? 128 : 0))
      rest = Math.floor(rest / 128)
    } while (rest > 0)
    return [0x30, ...length, ...Array.from({ length: bytes }, (_, i) => i % 256)]
  }

  const packetsOf = (chunks: readonly Uint8Array[]): PacketHeader[] => {
    const gauge = new PacketGauge()
    const found: PacketHeader[] = []
    for (const chunk of chunks)
      for (let at = 0; at < chunk.length; ) {
        const { end, packet } = gauge.advance(chunk, at)
        if (packet) found.push(packet)
        at = end
      }
    return found
  }

  it('finds every packet and its size, however the stream is split into chunks', () => {
    const bodies = fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 8 })
    fc.assert(
      fc.property(bodies, fc.integer({ min: 1, max: 50 }), (sizes, chunk) => {
        const stream = Uint8Array.from(sizes.flatMap(packet))
        const chunks = Array.from({ length: Math.ceil(stream.length / chunk) }, (_, i) =>
          stream.subarray(i * chunk, (i + 1) * chunk),
        )
        expect(packetsOf(chunks)).toEqual(sizes.map((bodyBytes) => ({ type: 3, bodyBytes })))
      }),
    )
  })

  it('rejects a length field of more than four bytes', () => {
    const malformed = Uint8Array.of(0x30, 0xff, 0xff, 0xff, 0xff, 0x01)
    expect(packetsOf([malformed])).toEqual([{ type: 3, bodyBytes: Number.POSITIVE_INFINITY }])
  })
})
