import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { guardListener, type ListenerLimits } from '../../core/kit/listen/guard-listener.ts'
import { listen, urlHost } from '../../core/kit/listen/listen.ts'
import type { Certificate } from '../http/certificate.ts'
import { openSockets } from '../http/open-sockets.ts'

const tcpKeepAliveMs = 60_000

export interface MqttListenerOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Absent: no limits. */
  readonly connectionLimits?: ListenerLimits | undefined
  /** Absent: plain text. */
  readonly certificate?: Certificate | undefined
  /** Whether clients must prove their identity. */
  readonly authRequired: boolean
  /** Serves MQTT on this connection, which has sent its first bytes. @param onConnect the client of this connection has sent its CONNECT packet */
  readonly serve: (transport: Duplex, address: string | undefined, onConnect: () => void) => void
  readonly clock: Clock
  readonly logger: Logger
}

export interface MqttListener {
  /** mqtt://host:port, or mqtts: */
  readonly url: string
  close(): Promise<void>
}

/** The TCP port of the embedded broker. @throws BrimError LISTEN_REFUSED, LISTEN_FAILED */
export async function startMqttListener(options: MqttListenerOptions): Promise<MqttListener> {
  const { host, port, connectionLimits, certificate, authRequired, serve, clock, logger } = options
  const onSocket = (socket: Socket) =>
    onFirstBytes(socket, () => serve(socket, socket.remoteAddress, () => guard.beginRequest(socket)))
  const server = certificate ? createTlsServer(certificate.current, onSocket) : createServer(onSocket)
  if (server instanceof TlsServer) certificate?.onChange((pair) => server.setSecureContext(pair))
  const sockets = openSockets(server)
  const guard = guardListener(server, { limits: connectionLimits, what: 'MQTT', clock, logger })
  server.on('connection', (socket: Socket) => {
    // Messages are small, and their senders wait for the acknowledgement.
    socket.setNoDelay(true)
    // Finds peers that have vanished where a client asks for no keepalive of MQTT.
    socket.setKeepAlive(true, tcpKeepAliveMs)
  })
  const bound = await listen(server, { host, port, what: 'MQTT broker', flag: '--mqtt-port', authRequired })
  return {
    url: `${certificate ? 'mqtts' : 'mqtt'}://${urlHost(host)}:${bound}`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** A client of the broker costs several times as much as its socket: when thousands of silent ones close, all others would wait. */
function onFirstBytes(socket: Socket, begin: () => void): void {
  const onReadable = () => {
    // The end: reading it closes the socket.
    if (socket.readableLength === 0) return void socket.read()
    socket.off('readable', onReadable)
    begin()
  }
  socket.on('readable', onReadable)
  socket.on('error', () => socket.destroy())
}
