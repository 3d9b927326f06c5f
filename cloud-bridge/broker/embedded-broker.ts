import type { Duplex } from 'node:stream'
import { Aedes, type Client } from 'aedes'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { cutText, sampledWarnings } from '../../core/kit/base/sampled-warnings.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { firstRequestMs } from '../../core/kit/listen/http-listener.ts'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import type { Gate } from '../identity/gate.ts'
import type { BridgeLimits } from '../limits.ts'
import { ClientRules } from './client-rules.ts'
import { ClientStream, clientAddress } from './client-stream.ts'
import type { ControlBroker } from './control-broker.ts'
import { openMemoryConnection } from './memory-connection.ts'
import { MessageBus } from './message-bus.ts'
import { type MqttListenerOptions, startMqttListener } from './mqtt-listener.ts'
import { createMqttUpgrade } from './mqtt-upgrade.ts'
import { SessionMemory } from './session-memory.ts'

/** Only writes to the bridge's own connection wait until it has read: see ClientStream. */
const ownDrainTimeoutMs = 60_000
/** How often revoked API keys are looked up: operators revoke them in another process. */
const revocationCheckMs = 1_000
/** Incomplete QoS 2 messages of one client; one more ends its connection. */
const maxQos2Inflight = 16
/** Of a packet (MQTT 3.1.1 §2.2). */
const maxHeaderBytes = 5

export interface BrokerOptions extends Pick<MqttListenerOptions, 'host' | 'connectionLimits' | 'certificate'> {
  /** 0: any free port. Undefined: only MQTT over WebSocket. */
  readonly port: number | undefined
  readonly limits: BridgeLimits
  /** Only topics of this fleet can be used. */
  readonly fleet: string
  /** Checks the bearer token that clients send as password. */
  readonly gate?: Gate | undefined
  /** A second device wants to connect under the id of a connected one, and is refused. */
  readonly onIdConflict?: ((device: string, address: string) => void) | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** It has limits for all clients but the bridge itself. */
export type EmbeddedBroker = ControlBroker & Required<Pick<ControlBroker, 'upgrade' | 'openStream' | 'clearState' | 'counts'>>

export type ListeningBroker = EmbeddedBroker & { readonly url: string }

/**
 * An MQTT 3.1.1 broker in this process (aedes). It holds retained messages in memory only: no guarantee depends on them.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startEmbeddedBroker(options: BrokerOptions & { readonly port: number }): Promise<ListeningBroker>
export async function startEmbeddedBroker(options: BrokerOptions): Promise<EmbeddedBroker>
export async function startEmbeddedBroker(options: BrokerOptions): Promise<EmbeddedBroker> {
  const { port, gate, limits, clock, logger } = options
  const authRequired = gate?.authRequired === true
  const warn = sampledWarnings(logger, clock)
  const clients = new Map<string, Client>()
  const received = { received: 0, receivedBytes: 0 }
  const { onIdConflict = () => {} } = options
  const rules = new ClientRules({ ...options, gate, connected: (id) => clients.get(id), onIdConflict, warn })
  const { handlers } = rules
  const clearRetained = (topic: string) => {
    const cleared = { cmd: 'publish', topic, payload: Buffer.alloc(0), qos: 0, dup: false, retain: true } as const
    broker.publish(cleared, () => rules.onCleared(topic))
  }
  const broker = await Aedes.createBroker({
    mq: new MessageBus(),
    persistence: new SessionMemory(),
    drainTimeout: ownDrainTimeoutMs,
    connectTimeout: firstRequestMs,
    maxInflightInbound: maxQos2Inflight,
    ...handlers,
    preConnect(client, packet, done) {
      // It may wait for its turn: newer connections must not replace it meanwhile.
      if (client.conn instanceof ClientStream) client.conn.onConnect()
      handlers.preConnect(client, packet, done)
    },
    published(packet, client, done) {
      if (client) {
        received.received += 1
        received.receivedBytes += Buffer.byteLength(packet.payload)
      }
      // It was on its way when proof became required.
      if (client && packet.retain && !rules.mayAct(client)) clearRetained(packet.topic)
      done(null)
    },
  })
  const logError = (client: Client, { message }: Error) => {
    warn(
      { client: cutText(client.id ?? ''), address: clientAddress(client), reason: cutText(message) },
      'MQTT client disconnected by an error',
    )
  }
  broker.on('clientError', logError)
  broker.on('connectionError', logError)

  broker.on('client', (client) => {
    clients.set(client.id, client)
    rules.onConnect(client)
    // Proof became required while it connected.
    if (!rules.mayAct(client)) client.close()
  })
  broker.on('clientDisconnect', (client) => {
    if (clients.get(client.id) === client) clients.delete(client.id)
    rules.onDisconnect(client)
  })
  broker.on('unsubscribe', (filters, client) => rules.onUnsubscribe(client, filters))
  const serve = (transport: Duplex, address: string | undefined, onConnect: () => void) => {
    const stream = new ClientStream(transport, address, {
      limits,
      onConnect,
      onSlowed: (waitMs) =>
        warn(
          { client: cutText(client.id ?? ''), address, waitMs: Math.round(waitMs) },
          'MQTT client slowed: it exceeds its rate',
        ),
      clock,
    })
    const client = broker.handle(stream)
  }
  const listener =
    port === undefined
      ? undefined
      : await startMqttListener({ ...options, port, authRequired, serve }).catch((error: unknown) => {
          broker.close()
          throw error
        })
  const stopChecking = repeatEvery(clock, revocationCheckMs, () =>
    tryOrLog(logger, 'revoked keys not read', () => {
      for (const client of rules.revokedWatchers()) client.close()
    }),
  )
  return {
    url: listener?.url,
    external: false,
    upgrade: createMqttUpgrade({ maxMessageBytes: limits.mqttPacketBytes + maxHeaderBytes, serve }),
    openStream() {
      const [own, other] = openMemoryConnection()
      broker.handle(other)
      return own
    },
    admit: async () => undefined,
    disconnect: (device) => clients.get(`device-${device}`)?.close(),
    clearState: (device) => clearRetained(deviceTopic(options.fleet, device, 'state')),
    dropUnproven() {
      for (const client of clients.values()) if (!rules.mayAct(client)) client.close()
      for (const topic of rules.unprovenTopics()) clearRetained(topic)
    },
    counts: () => ({ clients: clients.size, ...received, refusedConnects: rules.refusedConnects }),
    async close() {
      await stopChecking()
      rules.close()
      await new Promise<void>((done) => broker.close(() => done()))
      // aedes itself tracks only clients that have sent CONNECT.
      await listener?.close()
    },
  }
}
