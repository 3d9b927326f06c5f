import type { Duplex } from 'node:stream'
import { connect, type IClientOptions, MqttClient } from 'mqtt'
import { writeToStream } from 'mqtt-packet'
import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { disableNagle } from '../../core/kit/base/no-delay.ts'
import type { Progress } from '../../core/kit/base/progress.ts'
import { isUntrusted, trustHint } from '../../core/kit/base/untrusted-certificate.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import { isLoginRefused } from '../../core/wire/protocol/connack.ts'
import { bridgeStateDelivery, deviceDelivery, leavesTo, pairsOf, publishOptions } from '../../core/wire/protocol/delivery.ts'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import { BridgeState, DeviceState } from '../../core/wire/protocol/messages.ts'
import { brokerNodes, brokerServers } from '../../core/wire/protocol/mqtt-url.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import { allDevices, bridgeStateTopic, type DeviceTopic, deviceTopic, parseDeviceTopic } from '../../core/wire/protocol/topics.ts'

// MQTT.js would prepare a buffer for each 16-bit number, which takes 8 MB.
writeToStream.cacheNumbers = false

/** Time in which a broker in this process accepts the bridge again. */
const ownBrokerBackMs = 2 * 60_000
/** Time for the broker to deliver our state `disconnected`. */
const goodbyeTimeoutMs = 2_000
const retained = publishOptions(bridgeStateDelivery)

export interface ControlOptions {
  /** Of several nodes, separated by commas. */
  readonly url: string
  /** Opens a connection to it within this process. Absent: by network. */
  readonly openStream?: (() => Duplex) | undefined
  /** Absent: the broker asks for none. */
  readonly login?: MqttLogin | undefined
  readonly fleet: string
  readonly bridge: string
  /** Persisted start counter: it tells our state from the late will of an earlier start. */
  readonly birth: number
  /** Fields of the retained state beside `state`, `birth` and `at`. */
  readonly describe: () => Omit<BridgeState, 'v' | 'state' | 'birth' | 'at'>
  /** Whether messages of this device are handled; default: of every device. */
  readonly accepts?: ((device: string) => boolean) | undefined
  /** @param isRetained it may be of yesterday: a broker that outlives this process has kept it */
  readonly onDeviceState: (device: string, payload: Uint8Array, isRetained: boolean) => void
  readonly onDeviceTelemetry: (device: string, payload: Uint8Array) => void
  readonly onJobEvent: (device: string, payload: Uint8Array) => void
  readonly onDeviceReply: (device: string, payload: Uint8Array) => void
  readonly onDeviceLog: (device: string, payload: Uint8Array) => void
  /** A later start of a bridge of this id has published its state. */
  readonly onNewerBirth?: (() => void) | undefined
  /** Of other programs at the broker. Absent: none. */
  readonly home?: HomeTraffic | undefined
  /** Time limit of the first connection; default 10 s. */
  readonly connectTimeoutMs?: number
  /** Notices that this link stands still, where the broker runs in this process. */
  readonly progress?: Progress
  readonly clock: Clock
  readonly logger: Logger
}

/** What a part of the bridge exchanges with other programs at the broker. */
export interface HomeTraffic {
  /** Subscribed where the broker's rules allow it: they may be older. */
  readonly filters: readonly string[]
  /** The broker is connected, again. @param retain as the link's */
  onConnect(retain: BrokerLink['retain']): void
  onMessage(topic: string, payload: Uint8Array, isRetained: boolean): void
}

export interface BrokerLink {
  readonly connected: boolean
  /** Publishes the state `draining`: devices open sessions elsewhere. */
  drain(): void
  /** Publishes the retained state again, after a change of what `describe` returns. */
  publishState(): void
  /** Publishes to a device. Drops the message if the broker is not connected. */
  publish(device: string, leaf: 'jobs' | 'acks' | 'commands' | 'faults', message: string): void
  /** Publishes a retained message for other programs; an empty one clears the topic. Drops it if the broker is not connected. */
  retain(topic: string, message: string): void
  /** Publishes `disconnected` and disconnects cleanly, so that the broker does not publish the will. */
  close(): Promise<void>
}

/**
 * Connects the bridge to the control plane: publishes its retained state with a will, and subscribes to what devices
 * publish. Works with any MQTT 3.1.1 broker. Reconnects after an outage of the broker.
 * @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED
 */
export async function connectControl(options: ControlOptions): Promise<BrokerLink> {
  const { url, login, fleet, bridge, birth, accepts = () => true, clock, logger } = options
  const topic = bridgeStateTopic(fleet, bridge)
  let current: BridgeState['state'] = 'ready'
  /** A broker in this process has no other bridge. */
  const mayShare = options.openStream === undefined
  /** Whether the broker delivers what devices publish on this bridge's own topics. */
  let hasOwnTopics = false
  /** Devices that use them only. */
  const onOwnTopics = new Set<string>()
  const stateMessage = (state: BridgeState['state']): string => {
    const own = hasOwnTopics ? { ownTopics: true } : {}
    return JSON.stringify({ v: 1, state, birth, at: nowIso(), ...options.describe(), ...own } satisfies BridgeState)
  }

  const settings: IClientOptions = {
    // By default each packet is described for a log that is off.
    log: () => {},
    clientId: login?.clientId ?? `bridge-${bridge}`,
    protocolVersion: 4,
    ...(login ? { username: `bridge-${bridge}`, password: login.password } : {}),
    clean: true,
    resubscribe: false,
    // A restarted broker may refuse our credentials at first.
    reconnectOnConnackError: true,
    will: { topic, payload: Buffer.from(JSON.stringify({ v: 1, state: 'lost', birth, at: nowIso() })), ...retained },
  }
  const { openStream } = options
  const subscribeQos = login?.subscribeQos
  // Within this process nothing is lost, and each acknowledgement would be a packet of its own.
  const qos = openStream ? 0 : subscribeQos
  const client = openStream
    ? new MqttClient(openStream, settings)
    : connect(brokerNodes(url)[0]!, { ...settings, servers: brokerServers(url) })
  // The absence of an external broker is no fault of this process.
  const expectation = openStream ? options.progress?.expect('control plane') : undefined
  const publishState = () => {
    if (!client.connected) return
    client.publish(topic, stateMessage(current), retained, (err) => {
      if (err) logger.warn({ err }, 'bridge state not published')
    })
  }
  const onOwnState = (payload: Uint8Array) => {
    const read = readMessage(BridgeState, payload)
    // Only bridges of this id publish there; an unreadable state comes from another release.
    if (read.kind === 'unreadable' || current === 'disconnected') return
    const published = read.message
    // A late will, or the state of an earlier start, replaced our retained state.
    if (published.birth < birth || published.state === 'lost') publishState()
    else if (published.birth > birth) {
      logger.error({ birth, newer: published.birth }, 'another bridge uses the id of this one')
      options.onNewerBirth?.()
    }
  }
  const handlers: Partial<Record<DeviceTopic, (device: string, payload: Uint8Array, isRetained: boolean) => void>> = {
    state: options.onDeviceState,
    telemetry: options.onDeviceTelemetry,
    events: options.onJobEvent,
    replies: options.onDeviceReply,
    log: options.onDeviceLog,
  }
  client.on('message', (on, payload, { retain }) => {
    if (on === topic) return onOwnState(payload)
    const from = parseDeviceTopic(fleet, on)
    if (!from) return options.home?.onMessage(on, payload, retain)
    if (!accepts(from.device) || (from.bridge ?? bridge) !== bridge) return
    if (from.leaf === 'state' && mayShare) noteTopics(from.device, payload)
    // A broker in this process keeps nothing of an earlier start, and knows which devices have left.
    handlers[from.leaf]?.(from.device, payload, retain && mayShare)
  })
  function noteTopics(device: string, payload: Uint8Array): void {
    const read = readMessage(DeviceState, payload)
    if (read.kind === 'message' && read.message.ownTopics?.includes(bridge)) onOwnTopics.add(device)
    else onOwnTopics.delete(device)
  }
  const retain: BrokerLink['retain'] = (to, message) => {
    if (!client.connected || current === 'disconnected') return
    client.publish(to, message, retained, (err) => {
      if (err) logger.warn({ err, topic: to }, 'message for other programs not published')
    })
  }
  function subscribeHome(home: HomeTraffic): void {
    const { filters } = home
    client.subscribe([...filters], { qos: subscribeQos ?? 1 }, (err) => {
      if (err && client.connected) logger.warn({ err, filters }, 'the broker refuses topics of Home Assistant: docs/brokers.md')
    })
    home.onConnect(retain)
  }
  client.on('connect', () => {
    expectation?.rest()
    disableNagle(client.stream)
    const filters = Object.fromEntries([
      ...leavesTo('bridge').map((leaf) => [allDevices(fleet, leaf), { qos: qos ?? deviceDelivery[leaf].qos }]),
      [topic, { qos: subscribeQos ?? retained.qos }],
    ])
    client.subscribe(filters, (err) => {
      if (!err || !client.connected) return
      // Without subscriptions the bridge would count every device as lost, so it reconnects.
      logger.error({ err }, 'subscription to device messages failed; reconnecting')
      client.stream.destroy()
    })
    if (options.home) subscribeHome(options.home)
    if (!mayShare) return publishState()
    const own = pairsOf(leavesTo('bridge')).map((leaf) => [
      allDevices(fleet, leaf, bridge),
      { qos: qos ?? deviceDelivery[leaf].qos },
    ])
    client.subscribe(Object.fromEntries(own), (err, granted = []) => {
      // The rules of the broker may be older than these topics.
      hasOwnTopics = !err && granted.every(({ qos }) => qos < 128)
      publishState()
    })
  })
  // During an outage every attempt fails alike: only the first is a warning.
  client.on('error', (err) => logger[client.reconnecting ? 'debug' : 'warn']({ err }, 'broker connection failed'))
  client.on('offline', () => logger.warn({ url }, 'broker unreachable, retrying'))
  client.on('close', () => expectation?.within(ownBrokerBackMs))

  await connected(client, url, options.connectTimeoutMs ?? 10_000, clock)
  return {
    get connected() {
      return client.connected
    },
    publishState,
    drain() {
      if (current !== 'ready') return
      current = 'draining'
      publishState()
    },
    publish(device, leaf, message) {
      if (!client.connected || current === 'disconnected') return
      const own = onOwnTopics.has(device) ? bridge : undefined
      client.publish(deviceTopic(fleet, device, leaf, own), message, publishOptions(deviceDelivery[leaf]), (err) => {
        if (err) logger.warn({ err, device, leaf }, 'message to the device not published')
      })
    },
    retain,
    async close() {
      current = 'disconnected'
      const isDelivered = client.connected && (await publishGoodbye(client, topic, stateMessage(current), clock))
      // A broker that does not answer must not delay the end, nor one that gives this connection up for another of the same client id.
      const isEnded = isDelivered && (await withTimeout(goodbyeTimeoutMs, client.endAsync(), clock))
      if (!isEnded) await client.endAsync(true)
      expectation?.rest()
    },
  }
}

async function connected(client: MqttClient, url: string, timeoutMs: number, clock: Clock): Promise<void> {
  let last: (Error & { code?: unknown }) | undefined
  const onError = (error: Error) => {
    last = error
  }
  client.on('error', onError)
  const isConnected = await withTimeout(timeoutMs, new Promise<void>((resolve) => client.once('connect', () => resolve())), clock)
  client.off('error', onError)
  if (isConnected) return
  client.end(true)
  const details = last === undefined ? {} : { cause: last }
  throw isLoginRefused(last)
    ? new BrimError('NOT_AUTHORIZED', `the broker ${url} rejected the credentials of this bridge`, {
        ...details,
        hint: 'set up the bridge as a client of the broker: docs/brokers.md',
      })
    : new BrimError('BROKER_UNREACHABLE', `the broker ${url} did not respond within ${timeoutMs} ms`, {
        ...details,
        hint: isUntrusted(last) ? trustHint : 'check the address and whether the broker runs',
      })
}

/**
 * Waits until the broker delivers the state to this bridge too, because its acknowledgement alone proves no delivery.
 * @returns whether that was in time
 */
function publishGoodbye(client: MqttClient, topic: string, state: string, clock: Clock): Promise<boolean> {
  const delivered = new Promise<void>((resolve) => {
    client.on('message', (on, payload) => {
      if (on === topic && payload.toString() === state) resolve()
    })
    client.once('close', () => resolve())
  })
  client.publish(topic, state, retained)
  return withTimeout(goodbyeTimeoutMs, delivered, clock)
}
