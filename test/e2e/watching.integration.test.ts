import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { ControlLink } from '../../agent/link/control-link.ts'
import { connectControl } from '../../cloud-bridge/link/control.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { BridgeState, DeviceState } from '../../core/wire/protocol/messages.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { mosquittoMissing, startBroker, startMosquitto, watchTopic } from '../support/broker.ts'
import { testModelId } from '../support/data-plane.ts'
import { silentLogger } from '../support/silent-logger.ts'

const brokers = [
  { name: 'embedded broker', start: startBroker, missing: () => mosquittoMissing('mosquitto_sub') },
  { name: 'mosquitto', start: startMosquitto, missing: () => mosquittoMissing() || mosquittoMissing('mosquitto_sub') },
]
const ignore = () => {}

/** The output of mosquitto_sub: lines of `topic {json}`. */
async function mosquittoSub(url: string, messages: number): Promise<string[]> {
  const { hostname, port } = new URL(url)
  const seconds = '20'
  const words = ['-h', hostname, '-p', port, '-t', 'brim/v1/#', '-v', '-C', String(messages), '-W', seconds]
  const child = spawn('mosquitto_sub', words, { stdio: ['ignore', 'pipe', 'inherit'] })
  return (await text(child.stdout)).trimEnd().split('\n')
}

describe.each(brokers)("mosquitto_sub -t 'brim/v1/#' -v at the $name", ({ start, missing }) => {
  it.skipIf(missing())('prints the retained states of bridges and devices, one line of JSON each', async () => {
    await using broker = await start()
    const bridge = await connectControl({
      url: broker.url,
      fleet: 'default',
      bridge: 'bridge-1',
      birth: 3,
      describe: () => ({ bridge: '0.1.0', modelId: testModelId, data: 'ws://10.0.0.5:7070/v1/data', sessions: 2 }),
      onDeviceState: ignore,
      onDeviceTelemetry: ignore,
      onJobEvent: ignore,
      onDeviceReply: ignore,
      onDeviceLog: ignore,
      clock: systemClock,
      logger: silentLogger(),
    })
    const device = new ControlLink({
      url: broker.url,
      fleet: 'default',
      device: 'jetson-01',
      birth: 12,
      agent: '0.1.0',
      modelId: testModelId,
      clock: systemClock,
      random: { next: () => 0 },
      logger: silentLogger(),
      onBridges: ignore,
      heartbeatS: 30,
      reconnectMaxS: 30,
    })
    device.start([])
    await using watcher = await watchTopic(broker.url, 'brim/v1/#')
    await expect.poll(() => new Set(watcher.messages.map(({ topic }) => topic)).size).toBe(2)

    const lines = await mosquittoSub(broker.url, 2)
    const shown = new Map(lines.map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]))
    expect(lines.filter((line) => !/^\S+ \{[\x20-\x7e]+\}$/.test(line))).toEqual([])
    const state = shown.get(deviceTopic('default', 'jetson-01', 'state')) ?? ''
    expect(DeviceState.parse(JSON.parse(state))).toMatchObject({ state: 'ready', birth: 12, agent: '0.1.0' })
    const announced = shown.get(bridgeStateTopic('default', 'bridge-1')) ?? ''
    expect(BridgeState.parse(JSON.parse(announced))).toMatchObject({ state: 'ready', data: 'ws://10.0.0.5:7070/v1/data' })
    await device.close()
    await bridge.close()
  })
})
