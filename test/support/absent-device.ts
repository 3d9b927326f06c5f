import { expect } from 'vitest'
import type { Bridge } from '../../cloud-bridge/bridge.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { mqttClient } from './broker.ts'

/** A device that the bridge knows, and that is not connected. */
export async function registerAbsentDevice({ mqttUrl, httpUrl }: Pick<Bridge, 'mqttUrl' | 'httpUrl'>, id: string): Promise<void> {
  const client = await mqttClient(mqttUrl, `device-${id}`)
  const state = { v: 1, state: 'disconnected', birth: 1, at: new Date().toISOString() }
  await client.publishAsync(deviceTopic('default', id, 'state'), JSON.stringify(state), { qos: 1, retain: true })
  await client.endAsync()
  await isKnown({ httpUrl }, id)
}

/** Resolves once the bridge accepts jobs for the device: its first state has arrived. */
export const isKnown = ({ httpUrl }: Pick<Bridge, 'httpUrl'>, id: string) =>
  expect.poll(async () => (await fetch(`${httpUrl}/v1/devices/${id}`)).status).toBe(200)
