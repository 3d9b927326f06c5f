import { once } from 'node:events'
import { createServer, type Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls'
import { Aedes, type Client } from 'aedes'
import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { cutText, sampledWarnings } from '../../core/base/sampled-warnings.ts'
import { guardListener, type ListenerLimits } from '../../core/listen/guard-listener.ts'
import { deviceTopic } from '../../core/protocol/topics.ts'
import type { Certificate } from '../http/certificate.ts'
import { listen, urlHost } from '../http/listen.ts'
import { openSockets } from '../http/open-sockets.ts'
import type { Gate } from '../identity/gate.ts'
import type { BridgeLimits } from '../limits.ts'
import { ClientRules } from './client-rules.ts'
import { ClientStream, clientAddress } from './client-stream.ts'
import { openMemoryConnection } from './memory-connection.ts'
import { MessageBus } from './message-bus.ts'
import { SessionMemory } from './session-memory.ts'

/** Only writes to the bridge's own connection wait until it has read: see ClientStream. */
const ownDrainTimeoutMs = 60_000
const tcpKeepAliveMs = 60_000

export interface BrokerOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly limits: BridgeLimits
  /** Absent: no limits. */
  readonly connectionLimits?: ListenerLimits | undefined
  /** Only topics of this fleet can be used. */
  readonly fleet: string
  /** Absent: plain text. */
  readonly certificate?: Certificate | undefined
  /** Checks the bearer token that clients send as password. */
  readonly gate?: Gate | undefined
  /** A second device wants to connect under the id of a connected one, and is refused. */
  readonly onIdConflict?: ((device: string, address: string) => void) | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** Of clients, the bridge's own connection included. */
export interface BrokerCounts {
  readonly clients: number
  /** Messages that they have published, and the bytes of their payloads. */
  readonly received: number
  readonly receivedBytes: number
}

export interface EmbeddedBroker {
  /** mqtt://host:port, or mqtts: */
  readonly url: string
  /** A connection for the bridge itself, within this process: it has no limits. */
  openStream(): Duplex
  /** Ends the connection of this client; its will is published. */
  disconnect(clientId: string): void
  /**
   * The gate requires proof from now on: ends the connections of clients that have given none, without their wills, and
   * clears the retained messages that they may have published.
   */
  clearState(device: string): void
  dropUnproven(): void
  counts(): BrokerCounts
  close(): Promise<void>
}

/**
 * An MQTT 3.1.1 broker in this process (aedes). It holds retained messages in memory only: no guarantee depends on them.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startEmbeddedBroker(options: BrokerOptions): Promise<EmbeddedBroker> {
  const { certificate, gate, limits, clock, logger } = options
  const warn = sampledWarnings(logger, clock)
  const clients = new Map<string, Client>()
  const received = { received: 0, receivedBytes: 0 }
  const { onIdConflict = () => {} } = options
  const rules = new ClientRules({ ...options, gate, connected: (id) => clients.get(id), onIdConflict, warn })
  const clearRetained = (topic: string) => {
    const cleared = { cmd: 'publish', topic, payload: Buffer.alloc(0), qos: 0, dup: false, retain: true } as const
    broker.publish(cleared, () => rules.onCleared(topic))
  }
  const broker = await Aedes.createBroker({
    mq: new MessageBus(),
    persistence: new SessionMemory(),
    drainTimeout: ownDrainTimeoutMs,
    maxInflightInbound: limits.mqttQos2Inflight,
    ...rules.handlers,
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
    // Proof became required while it connected.
    if (!rules.mayAct(client)) client.close()
  })
  broker.on('clientDisconnect', (client) => {
    if (clients.get(client.id) === client) clients.delete(client.id)
  })
  broker.on('unsubscribe', (filters, client) => rules.onUnsubscribe(client, filters))
  const serve = (transport: Duplex, address: string | undefined) => {
    const stream = new ClientStream(transport, address, {
      limits,
      onSlowed: (waitMs) =>
        warn(
          { client: cutText(client.id ?? ''), address, waitMs: Math.round(waitMs) },
          'MQTT client slowed: it exceeds its rate',
        ),
      clock,
    })
    const client = broker.handle(stream)
  }
  const onSocket = (socket: Socket) => serve(socket, socket.remoteAddress)
  const server = certificate ? createTlsServer(certificate.current, onSocket) : createServer(onSocket)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  const sockets = openSockets(server)
  const guard = guardListener(server, { limits: options.connectionLimits, what: 'MQTT', clock, logger })
  broker.on('client', ({ conn }) => {
    if (conn instanceof ClientStream && conn.transport instanceof Socket) guard.beginRequest(conn.transport)
  })
  server.on('connection', (socket: Socket) => {
    // Messages are small, and their senders wait for the acknowledgement.
    socket.setNoDelay(true)
    // Finds peers that have vanished where a client asks for no keepalive of MQTT.
    socket.setKeepAlive(true, tcpKeepAliveMs)
  })
  const where = {
    host: options.host,
    port: options.port,
    what: 'MQTT broker',
    flag: '--mqtt-port',
    authRequired: gate?.authRequired === true,
  }
  const port = await listen(server, where).catch((error: unknown) => {
    broker.close()
    throw error
  })
  return {
    url: `${certificate ? 'mqtts' : 'mqtt'}://${urlHost(options.host)}:${port}`,
    openStream() {
      const [own, other] = openMemoryConnection()
      broker.handle(other)
      return own
    },
    disconnect: (clientId) => clients.get(clientId)?.close(),
    clearState: (device) => clearRetained(deviceTopic(options.fleet, device, 'state')),
    dropUnproven() {
      for (const client of clients.values()) if (!rules.mayAct(client)) client.close()
      for (const topic of rules.unprovenTopics()) clearRetained(topic)
    },
    counts: () => ({ clients: clients.size, ...received }),
    close: () => close(broker, server, sockets),
  }
}

async function close(broker: Aedes, server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  await new Promise<void>((done) => broker.close(() => done()))
  // aedes itself tracks only clients that have sent CONNECT.
  for (const socket of sockets) socket.destroy()
  await closed
}
