import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { ControlLink } from '../../agent/link/control-link.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { brim } from '../support/brim.ts'
import { startBroker, watchTopic } from '../support/broker.ts'
import { captureIo } from '../support/captured-io.ts'
import { shared } from '../support/shared.ts'
import { silentLogger } from '../support/silent-logger.ts'

const world = shared(startAgentWorld)

const deviceOf = async (id: string) => {
  const { devices } = (await (await fetch(`${world.bridge.httpUrl}/v1/fleet`)).json()) as { devices: { id: string }[] }
  return devices.find((device) => device.id === id)
}

describe('a second device under the id of another', () => {
  it('stops with DEVICE_ID_TAKEN, while the first one keeps its connection and is shown with the address of the second', async () => {
    await using states = await watchTopic(world.bridge.mqttUrl, deviceTopic('default', 'jetson-01', 'state'))
    await expect.poll(() => deviceOf('jetson-01')).toMatchObject({ state: 'ready' })
    const { io } = captureIo()
    const { bundle, bridge, dir } = world
    const run = ['agent', 'run', '--id', 'jetson-01', '--bundle', bundle, '--bridge', bridge.mqttUrl, '--api-port', '0']
    await expect(brim([...run, '--state-dir', join(dir, 'second'), '--threads', '1'], io)).rejects.toMatchObject({
      code: 'DEVICE_ID_TAKEN',
      message: expect.stringMatching(/^another device uses the id "jetson-01"/),
      hint: expect.any(String),
    })
    expect(await deviceOf('jetson-01')).toMatchObject({
      state: 'ready',
      birth: 1,
      problems: expect.arrayContaining([
        { kind: 'id-conflict', detail: expect.stringMatching(/another device at .*127\.0\.0\.1/) },
      ]),
    })
    expect(states.messages.map(({ text }) => JSON.parse(text).state)).not.toContain('lost')
    const status = captureIo()
    await brim(['fleet', 'status', '--bridge-url', bridge.httpUrl], status.io)
    expect(status.out()).toMatch(/1 id used twice: jetson-01 \(another device at .*127\.0\.0\.1\)/)
  })
})

describe('a device that connects again', () => {
  const links: ControlLink[] = []
  const linkTo = (url: string, birth: number, instance?: string) => {
    const link = new ControlLink({
      url,
      fleet: 'default',
      device: 'twin',
      birth,
      instance,
      agent: '0.2.0',
      modelId: undefined,
      clock: systemClock,
      // It does not reconnect during the test.
      random: { next: () => 0.999 },
      reconnectMaxS: 3_600,
      logger: silentLogger(),
      onBridges: () => {},
      heartbeatS: 30,
    })
    links.push(link)
    link.start([])
    return link
  }
  afterAll(() => Promise.all(links.map((link) => link.close())))

  it('takes over at once from its earlier connection, even if that one seems alive', async () => {
    await using broker = await startBroker()
    const before = linkTo(broker.url, 1, 'a'.repeat(16))
    await expect.poll(() => before.connected).toBe(true)
    const after = linkTo(broker.url, 2, 'a'.repeat(16))
    await expect.poll(() => [before.connected, after.connected]).toEqual([false, true])
  })

  it('takes over from an agent of an older release, and is replaced by one, as before', async () => {
    await using broker = await startBroker()
    const older = linkTo(broker.url, 1)
    await expect.poll(() => older.connected).toBe(true)
    const newer = linkTo(broker.url, 2, 'a'.repeat(16))
    await expect.poll(() => [older.connected, newer.connected]).toEqual([false, true])
    const older2 = linkTo(broker.url, 3)
    await expect.poll(() => [newer.connected, older2.connected]).toEqual([false, true])
  })

  it('is refused with another instance, and may connect once the first one has left', async () => {
    await using broker = await startBroker()
    const first = linkTo(broker.url, 1, 'a'.repeat(16))
    await expect.poll(() => first.connected).toBe(true)
    const second = linkTo(broker.url, 7, 'b'.repeat(16))
    expect(await second.idTaken).toMatchObject({ code: 'DEVICE_ID_TAKEN' })
    expect([first.connected, second.connected]).toEqual([true, false])
    await first.close()
    await second.retryNow()
    expect(second.connected).toBe(true)
  })
})
