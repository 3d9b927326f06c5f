import type { MqttClient } from 'mqtt'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { sampleOf } from '../../lab/bench/fleet/sample.ts'
import { mqttClient } from './broker.ts'

const sampleEveryMs = 10_000

export interface SimulatedDevice {
  readonly id: string
  readonly state?: DeviceState['state']
  /** Sections of its samples that differ from those of a device that is well. */
  readonly condition?: object
  /** Samples in its history; default: one. */
  readonly samples?: number
}

/** Devices without an agent: what they publish, once, each on a connection of its own. */
export async function publishFleet(
  mqttUrl: string,
  modelId: string,
  devices: readonly SimulatedDevice[],
): Promise<AsyncDisposable> {
  const clients = await Promise.all(devices.map(({ id }) => mqttClient(mqttUrl, `device-${id}`)))
  await Promise.all(devices.map((device, at) => publishDevice(clients[at]!, modelId, device, seededRandom(at + 1))))
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.endAsync(true)))
    },
  }
}

async function publishDevice(
  client: MqttClient,
  modelId: string,
  device: SimulatedDevice,
  random: { next(): number },
): Promise<void> {
  const { id, state = 'ready', condition = {}, samples = 1 } = device
  const publish = (leaf: 'state' | 'telemetry', message: object, retain = false) =>
    client.publishAsync(deviceTopic('default', id, leaf), JSON.stringify({ v: 1, birth: 1, ...message }), { qos: 1, retain })
  const nowMs = Date.now()
  const at = (ms: number) => new Date(ms).toISOString()
  const instance = Buffer.from(id).toString('hex').padEnd(16, '0').slice(0, 16)
  await publish('state', { state: 'ready', at: at(nowMs), agent: '0.3.0', modelId, jobs: [], instance }, true)
  for (let before = samples - 1; before >= 0; before--) {
    const ageMs = before * sampleEveryMs
    const sample = { ...sampleOf('bridge', 1_000_000 - ageMs / 1_000, random), ...condition }
    const hottestC = Math.round(38 + 20 * random.next())
    if (samples === 1) Object.assign(sample.temperatures!, { hottestC })
    await publish('telemetry', { ...sample, at: at(nowMs - ageMs), ...(before > 0 && { replayed: true }) })
  }
  if (state !== 'ready') await publish('state', { state, at: at(Date.now()), instance }, true)
}
