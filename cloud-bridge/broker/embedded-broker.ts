import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls'
import { Aedes, type AuthenticateError, type Client } from 'aedes'
import { type Clock, systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { guardListener, type ListenerLimits } from '../../core/listen/guard-listener.ts'
import type { Certificate } from '../http/certificate.ts'
import { listen, urlHost } from '../http/listen.ts'
import { openSockets } from '../http/open-sockets.ts'
import { allows } from '../identity/access.ts'
import type { Gate } from '../identity/gate.ts'
import { PacketGauge } from './packet-gauge.ts'

/** A subscriber that stops reading blocks all others until aedes disconnects it. */
const drainTimeoutMs = 5_000
const tcpKeepAliveMs = 60_000
/** CONNACK return code: not authorised. */
const notAuthorized = 5

export interface BrokerOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly maxPacketBytes: number
  /** Absent: no limits. */
  readonly connectionLimits?: ListenerLimits | undefined
  /** Only topics of this fleet can be used. */
  readonly fleet: string
  /** Absent: plain text. */
  readonly certificate?: Certificate | undefined
  /** Checks the bearer token that clients send as password. */
  readonly gate?: Gate | undefined
  readonly clock?: Clock
  readonly logger: Logger
}

export interface EmbeddedBroker {
  /** mqtt://host:port, or mqtts: */
  readonly url: string
  /** Ends the connection of this client; its will is published. */
  disconnect(clientId: string): void
  close(): Promise<void>
}

/**
 * An MQTT 3.1.1 broker in this process (aedes). It holds retained messages in memory only: no guarantee depends on them.
 * @throws BrimError LISTEN_REFUSED, LISTEN_FAILED
 */
export async function startEmbeddedBroker(options: BrokerOptions): Promise<EmbeddedBroker> {
  const { maxPacketBytes, connectionLimits: limits, fleet, certificate, gate, clock = systemClock, logger } = options
  const refusals = new WeakMap<Client, string>()
  const broker = await Aedes.createBroker({
    drainTimeout: drainTimeoutMs,
    preConnect: (client, packet, done) => {
      // Nothing is queued for absent clients: senders repeat what matters, and memory stays bounded.
      packet.clean = true
      const will = packet.will?.topic
      if (will !== undefined && !allows(packet.clientId, { to: 'publish', topic: will, fleet }))
        refusals.set(client, `a will on ${will}`)
      done(null, true)
    },
    authenticate: (client, _username, password, done) => {
      const proven =
        !gate?.authRequired || (allows(client.id, { to: 'join' }) && gate.subjectOf(password?.toString() ?? '') === client.id)
      const refusal = proven ? refusals.get(client) : 'no valid token for this client id'
      if (refusal === undefined) return done(null, true)
      const error: AuthenticateError = Object.assign(new Error(refusal), { returnCode: notAuthorized })
      done(error, false)
    },
    authorizePublish: (client, packet, done) => {
      const retains = packet.retain && !packet.topic.endsWith('/state')
      const allowed = client !== null && !retains && allows(client.id, { to: 'publish', topic: packet.topic, fleet })
      done(allowed ? null : new Error(`${client?.id} may not publish on ${packet.topic}`))
    },
    authorizeSubscribe: (client, subscription, done) => {
      const allowed = allows(client.id, { to: 'subscribe', filter: subscription.topic, fleet })
      if (!allowed) logger.warn({ client: client.id, filter: subscription.topic }, 'MQTT subscription refused')
      done(null, allowed ? subscription : null)
    },
  })
  const logError = (client: Client, err: Error) => logger.warn({ err, client: client.id }, 'MQTT client disconnected by an error')
  broker.on('clientError', logError)
  broker.on('connectionError', logError)

  const clients = new Map<string, Client>()
  broker.on('client', (client) => clients.set(client.id, client))
  broker.on('clientDisconnect', (client) => {
    if (clients.get(client.id) === client) clients.delete(client.id)
  })
  const serve = (socket: Socket) => {
    refuseLargePackets(socket, maxPacketBytes)
    broker.handle(socket)
  }
  const server = certificate ? createTlsServer(certificate.current, serve) : createServer(serve)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  const sockets = openSockets(server)
  const guard = guardListener(server, { limits, what: 'MQTT', clock, logger })
  broker.on('client', ({ conn }) => guard.beginRequest(conn as Socket))
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
    disconnect: (clientId) => clients.get(clientId)?.close(),
    close: () => close(broker, server, sockets),
  }
}

/** aedes limits no packet sizes. It reads with `read()`, so every chunk is measured there first. */
function refuseLargePackets(socket: Socket, maxBytes: number): void {
  const gauge = new PacketGauge(maxBytes)
  const read = socket.read.bind(socket)
  socket.read = (size?: number) => {
    const chunk: unknown = read(size)
    const tooLarge = chunk instanceof Uint8Array ? gauge.feed(chunk) : undefined
    if (tooLarge === undefined) return chunk
    socket.destroy(new BrimError('REQUEST_INVALID', `an MQTT packet of ${tooLarge} bytes; the limit is ${maxBytes}`))
    return null
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
