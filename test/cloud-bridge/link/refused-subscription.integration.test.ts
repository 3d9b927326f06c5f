import { Aedes } from 'aedes'
import { expect, it } from 'vitest'
import { connectControl } from '../../../cloud-bridge/link/control.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { mqttClient } from '../../support/broker.ts'
import { serveBroker } from '../../support/served-broker.ts'
import { silentLogger } from '../../support/silent-logger.ts'

it('a bridge reconnects after a broker refused its subscriptions, and then receives the states of devices', async () => {
  // As a broker does whose authorization service does not respond in time.
  let refusals = 0
  const broker = await Aedes.createBroker({
    authorizeSubscribe: (_client, subscription, done) => done(null, refusals++ < 6 ? null : subscription),
  })
  await using served = await serveBroker(broker)
  const { url } = served
  const devices: string[] = []
  const ignore = () => {}
  const control = await connectControl({
    url,
    fleet: 'default',
    bridge: 'bridge-1',
    birth: 1,
    describe: () => ({ data: 'ws://127.0.0.1:1/v1/data', sessions: 0 }),
    onDeviceState: (device) => devices.push(device),
    onDeviceTelemetry: ignore,
    onJobEvent: ignore,
    onDeviceReply: ignore,
    onDeviceLog: ignore,
    clock: systemClock,
    logger: silentLogger(),
  })
  const device = await mqttClient(url, 'device-a')
  await expect
    .poll(async () => {
      await device.publishAsync(deviceTopic('default', 'a', 'state'), '{}', { qos: 1 })
      return devices
    })
    .toContain('a')
  await device.endAsync()
  await control.close()
})
