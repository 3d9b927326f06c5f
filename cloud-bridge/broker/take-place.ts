import { connect } from 'mqtt'
import { nowIso } from '../../core/base/clock.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'
import { deviceTopic } from '../../core/protocol/topics.ts'

const timeoutMs = 5_000

/** What a bridge has heard last of a device's state. */
export type LastSaid = Pick<DeviceState, 'state' | 'birth'> | undefined

export interface Place {
  readonly url: string
  readonly fleet: string
  readonly device: string
  readonly username: string
  readonly password: string
  readonly lastSaid: LastSaid
}

/**
 * Connects under a device's client id and leaves again. Every broker ends the connection that was there before
 * [MQTT-3.1.4-2], so this cuts a device off where nothing better is known. What is retained of a device that had not taken
 * its leave becomes `lost`, under the birth that it had.
 */
export async function takePlace({ url, fleet, device, username, password, lastSaid }: Place): Promise<void> {
  const client = connect(url, {
    clientId: `device-${device}`,
    username,
    password,
    protocolVersion: 4,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: timeoutMs,
  })
  // What is said to a broker that goes away, or hangs, would be waited for without end.
  const timer = setTimeout(() => client.end(true), timeoutMs)
  const gone = new Promise<never>((_, reject) => {
    client.on('error', reject)
    client.once('close', () => reject(new Error('the broker closed the connection, or was too slow')))
  })
  const visit = async () => {
    await new Promise((resolve) => client.once('connect', resolve))
    if (lastSaid && lastSaid.state !== 'lost' && lastSaid.state !== 'disconnected') {
      const lost: DeviceState = { v: 1, state: 'lost', birth: lastSaid.birth, at: nowIso() }
      await client.publishAsync(deviceTopic(fleet, device, 'state'), JSON.stringify(lost), { qos: 1, retain: true })
    }
  }
  try {
    await Promise.race([visit(), gone])
    await client.endAsync()
  } finally {
    clearTimeout(timer)
    client.end(true)
  }
}
