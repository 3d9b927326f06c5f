import { connect, type MqttClient } from 'mqtt'
import { nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { sendAtOnce } from '../../core/base/no-delay.ts'
import { bridgeStateDelivery, deviceDelivery, publishOptions } from '../../core/protocol/delivery.ts'
import { BridgeState } from '../../core/protocol/messages.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import {
  allDeviceEvents,
  allDeviceLogs,
  allDeviceReplies,
  allDeviceStates,
  allDeviceTelemetry,
  bridgeStateTopic,
  deviceTopic,
  parseDeviceTopic,
} from '../../core/protocol/topics.ts'

const goodbyeTimeoutMs = 2_000
/** CONNACK return codes: bad user name or password, not authorised. */
const connackRefusals = [4, 5]
const retained = publishOptions(bridgeStateDelivery)

export interface ControlOptions {
  readonly url: string
  /** The broker is this process's own. */
  readonly isOwnBroker?: boolean
  /** Bearer token for the broker. */
  readonly password?: string | undefined
  readonly fleet: string
  readonly bridge: string
  /** Persisted counter: it tells our state from that of an earlier start, whose will may come late. */
  readonly birth: number
  /** What the retained state says beside `state`, `birth` and `at`. */
  readonly describe: () => Pick<BridgeState, 'bridge' | 'modelId' | 'data' | 'sessions'>
  readonly onDeviceState: (device: string, payload: Uint8Array) => void
  readonly onDeviceTelemetry: (device: string, payload: Uint8Array) => void
  readonly onJobEvent: (device: string, payload: Uint8Array) => void
  readonly onDeviceReply: (device: string, payload: Uint8Array) => void
  readonly onDeviceLog: (device: string, payload: Uint8Array) => void
  /** How long the first connection may take; 10 s by default. */
  readonly connectTimeoutMs?: number
  readonly logger: Logger
}

export interface ControlLink {
  readonly connected: boolean
  /** Publishes the retained state again: something that `describe` tells has changed. */
  publishState(): void
  /** Says something to a device; what cannot be said now is not kept. */
  publish(device: string, leaf: 'jobs' | 'acks' | 'commands' | 'faults', message: string): void
  /** Publishes `disconnected` and leaves; the will stays unsaid. */
  close(): Promise<void>
}

/**
 * The bridge on the control plane: its retained state with a will, and the states of the devices. Any MQTT 3.1.1
 * broker will do. Comes back by itself when the broker was away.
 * @throws BrimError BROKER_UNREACHABLE
 */
export async function connectControl(options: ControlOptions): Promise<ControlLink> {
  const { url, fleet, bridge, birth, logger } = options
  const topic = bridgeStateTopic(fleet, bridge)
  let current: BridgeState['state'] = 'ready'
  const say = (state: BridgeState['state']): string =>
    JSON.stringify({ v: 1, state, birth, at: nowIso(), ...options.describe() } satisfies BridgeState)

  const client = connect(url, {
    clientId: `bridge-${bridge}`,
    protocolVersion: 4,
    // The address is one that this process has bound: whose certificate it shows need not be asked.
    ...(options.isOwnBroker === true ? { rejectUnauthorized: false } : {}),
    ...(options.password === undefined ? {} : { username: `bridge-${bridge}`, password: options.password }),
    clean: true,
    resubscribe: false,
    // A broker that comes back may not know us again at once.
    reconnectOnConnackError: true,
    will: { topic, payload: Buffer.from(JSON.stringify({ v: 1, state: 'lost', birth, at: nowIso() })), ...retained },
  })
  const announce = () => {
    if (client.connected) client.publish(topic, say(current), retained, logIfFailed)
  }
  const logIfFailed = (err?: Error | null) => {
    if (err) logger.warn({ err }, 'bridge state not published')
  }
  const onOwnState = (payload: Uint8Array) => {
    const read = readMessage(BridgeState, payload)
    // Only we may publish there; what cannot be read is of another release, and not ours to answer.
    if (read.kind === 'unreadable' || current === 'disconnected') return
    const said = read.message
    // A late will, or the state of an earlier start, has replaced what we retained.
    if (said.birth < birth || said.state === 'lost') announce()
    else if (said.birth > birth) logger.error({ birth, newer: said.birth }, 'another bridge has started under our id')
  }
  client.on('message', (on, payload) => {
    if (on === topic) return onOwnState(payload)
    const from = parseDeviceTopic(fleet, on)
    if (from?.leaf === 'state') options.onDeviceState(from.device, payload)
    if (from?.leaf === 'telemetry') options.onDeviceTelemetry(from.device, payload)
    if (from?.leaf === 'events') options.onJobEvent(from.device, payload)
    if (from?.leaf === 'replies') options.onDeviceReply(from.device, payload)
    if (from?.leaf === 'log') options.onDeviceLog(from.device, payload)
  })
  client.on('connect', () => {
    sendAtOnce(client.stream)
    const filters = {
      [allDeviceStates(fleet)]: { qos: deviceDelivery.state.qos },
      [topic]: { qos: retained.qos },
      [allDeviceTelemetry(fleet)]: { qos: deviceDelivery.telemetry.qos },
      [allDeviceEvents(fleet)]: { qos: deviceDelivery.events.qos },
      [allDeviceReplies(fleet)]: { qos: deviceDelivery.replies.qos },
      [allDeviceLogs(fleet)]: { qos: deviceDelivery.log.qos },
    } as const
    client.subscribe(filters, (err) => {
      if (!err || !client.connected) return
      // Deaf, it would call everybody lost: it comes again, as after any other break.
      logger.error({ err }, 'not subscribed to what devices say; connecting again')
      client.stream.destroy()
    })
    announce()
  })
  // While the broker is away every attempt fails the same way: said once.
  client.on('error', (err) => logger[client.reconnecting ? 'debug' : 'warn']({ err }, 'broker connection failed'))
  client.on('offline', () => logger.warn({ url }, 'broker unreachable, retrying'))

  await connected(client, url, options.connectTimeoutMs ?? 10_000)
  return {
    get connected() {
      return client.connected
    },
    publishState: announce,
    publish(device, leaf, message) {
      if (!client.connected || current === 'disconnected') return
      client.publish(deviceTopic(fleet, device, leaf), message, publishOptions(deviceDelivery[leaf]), (err) => {
        if (err) logger.warn({ err, device, leaf }, 'not said to the device')
      })
    },
    async close() {
      current = 'disconnected'
      const wasHeard = client.connected && (await goodbye(client, topic, say(current)))
      // A broker that no longer answers would be waited for in vain.
      await client.endAsync(!wasHeard)
    },
  }
}

function connected(client: MqttClient, url: string, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let last: (Error & { code?: unknown }) | undefined
    const timer = setTimeout(() => {
      client.end(true)
      reject(
        connackRefusals.some((code) => code === last?.code)
          ? new BrimError('NOT_AUTHORIZED', `the broker ${url} does not let this bridge in`, {
              cause: last,
              hint: 'docs/brokers.md says what a broker needs that knows its clients',
            })
          : new BrimError('BROKER_UNREACHABLE', `the broker ${url} did not answer within ${timeoutMs} ms`, {
              ...(last === undefined ? {} : { cause: last }),
              hint: 'does it run, and is the address right?',
            }),
      )
    }, timeoutMs)
    const failed = (error: Error) => {
      last = error
    }
    client.on('error', failed)
    client.once('connect', () => {
      clearTimeout(timer)
      client.off('error', failed)
      resolve()
    })
  })
}

/**
 * An acknowledgement does not prove that anyone was told; that it came back to us, who listen too, does.
 * @returns whether it came back in time
 */
function goodbye(client: MqttClient, topic: string, state: string): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), goodbyeTimeoutMs)
    const done = () => {
      clearTimeout(timer)
      resolve(true)
    }
    client.on('message', (on, payload) => {
      if (on === topic && payload.toString() === state) done()
    })
    client.once('close', done)
    client.publish(topic, state, retained)
  })
}
