import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Aedes } from 'aedes'
import { expect, it } from 'vitest'
import { connectControl } from '../../../cloud-bridge/link/control.ts'
import { deviceTopic } from '../../../core/protocol/topics.ts'
import { mqttClient } from '../../support/broker.ts'
import { silentLogger } from '../../support/silent-logger.ts'

it('a bridge whose subscriptions a broker has refused connects again, and hears its devices', async () => {
  // As where a broker asks somebody who does not answer in time.
  let refusals = 0
  const broker = await Aedes.createBroker({
    authorizeSubscribe: (_client, subscription, done) => done(null, refusals++ < 6 ? null : subscription),
  })
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    broker.handle(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`
  const heard: string[] = []
  const unheard = () => {}
  const control = await connectControl({
    url,
    fleet: 'default',
    bridge: 'bridge-1',
    birth: 1,
    describe: () => ({ data: 'ws://127.0.0.1:1/v1/data', sessions: 0 }),
    onDeviceState: (device) => heard.push(device),
    onDeviceTelemetry: unheard,
    onJobEvent: unheard,
    onDeviceReply: unheard,
    onDeviceLog: unheard,
    logger: silentLogger(),
  })
  const device = await mqttClient(url, 'device-a')
  await expect
    .poll(
      async () => {
        await device.publishAsync(deviceTopic('default', 'a', 'state'), '{}', { qos: 1 })
        return heard
      },
      { timeout: 10_000 },
    )
    .toContain('a')
  await device.endAsync()
  await control.close()
  for (const socket of sockets) socket.destroy()
  await new Promise<void>((done) => broker.close(() => server.close(() => done())))
})
