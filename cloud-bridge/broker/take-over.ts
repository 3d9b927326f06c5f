import { connect } from 'mqtt'
import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import { brokerNodes } from '../../core/wire/protocol/mqtt-url.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import type { BrokerLogin } from './broker-secrets.ts'

const timeoutMs = 5_000

/** Last known state of a device; undefined: the bridge has never received one. */
export type LastState = Pick<DeviceState, 'state' | 'birth'> | undefined

export interface TakeOverOptions extends BrokerLogin {
  readonly url: string
  readonly fleet: string
  readonly device: string
  readonly lastState: LastState
  readonly clock: Clock
}

/**
 * Disconnects a device at an external broker: connects under its client id, which ends its connection [MQTT-3.1.4-2], and
 * leaves. A retained state of a device that counts as present becomes `lost`, with the same birth.
 */
export async function takeOver(options: TakeOverOptions): Promise<void> {
  let failure: unknown
  for (const url of brokerNodes(options.url)) {
    try {
      return await takeOverAt({ ...options, url })
    } catch (error) {
      failure = error
    }
  }
  throw failure
}

async function takeOverAt(options: TakeOverOptions): Promise<void> {
  const { url, fleet, device, username, password, lastState, clock } = options
  const client = connect(url, {
    clientId: `device-${device}`,
    username,
    password,
    protocolVersion: 4,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: timeoutMs,
  })
  const closed = new Promise<never>((_, reject) => {
    client.on('error', reject)
    client.once('close', () => reject(new Error('the broker closed the connection')))
  })
  const publishLost = async () => {
    await new Promise((resolve) => client.once('connect', resolve))
    if (lastState && lastState.state !== 'lost' && lastState.state !== 'disconnected') {
      const lost: DeviceState = { v: 1, state: 'lost', birth: lastState.birth, at: nowIso() }
      await client.publishAsync(deviceTopic(fleet, device, 'state'), JSON.stringify(lost), { qos: 1, retain: true })
    }
  }
  try {
    const done = Promise.race([publishLost(), closed]).then(() => client.endAsync())
    // mqtt.js has no timeout for a publication: a broker that hangs would keep it pending for ever.
    if (!(await withTimeout(timeoutMs, done, clock))) throw new Error(`the broker did not answer within ${timeoutMs} ms`)
  } finally {
    client.end(true)
  }
}
