import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { maxFrameBytes } from '../../core/protocol/frame.ts'
import { closeCodes } from '../../core/protocol/messages.ts'
import { refuseUpgrade } from '../http/refuse-upgrade.ts'
import { allows } from '../identity/access.ts'
import { bearerOf, type Gate } from '../identity/gate.ts'
import { type Connection, type ConnectionOptions, serveConnection } from './connection.ts'

export interface DataPlane {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Ends what this device has connected. */
  cut(device: string): void
  /** Ends every connection; resolves when their sessions are gone. */
  close(): Promise<void>
}

/** How long a peer may take to answer our close before it is cut off. */
const closeTimeoutMs = 1_000

/** WebSocket connections, one per device: who connects again replaces the connection that it had. */
export function createDataPlane(
  options: Omit<ConnectionOptions, 'onHello' | 'mayBe'> & { readonly gate?: Gate | undefined },
): DataPlane {
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    clientTracking: true,
  })
  const connections = new Set<Connection>()
  const byDevice = new Map<string, Connection>()

  return {
    upgrade(request, socket, head) {
      const { gate } = options
      const token = bearerOf(request.headers.authorization) ?? ''
      if (gate?.asks && gate.subjectOf(token) === undefined) return refuseUpgrade(socket, '401 Unauthorized')
      server.handleUpgrade(request, socket, head, (webSocket) => {
        const connection = serveConnection(webSocket, {
          ...options,
          // Asked again: the device may have been revoked since the upgrade.
          mayBe: (device) => !gate?.asks || allows(gate.subjectOf(token) ?? '', { to: 'connect', device }),
          onHello(own, device) {
            byDevice.get(device)?.close(closeCodes.replaced, 'LINK_LOST')
            byDevice.set(device, own)
          },
        })
        connections.add(connection)
        void connection.done.then(() => {
          connections.delete(connection)
          for (const [device, current] of byDevice) if (current === connection) byDevice.delete(device)
        })
      })
    },
    cut(device) {
      byDevice.get(device)?.close(closeCodes.unauthorized, 'NOT_AUTHORIZED')
    },
    async close() {
      // First: a device whose connection has just been closed may be back before the last one is.
      server.close()
      const open = [...connections]
      for (const connection of open) connection.close(closeCodes.goingAway, 'LINK_LOST')
      const timer = setTimeout(() => {
        for (const socket of server.clients) socket.terminate()
      }, closeTimeoutMs)
      await Promise.all(open.map((connection) => connection.done))
      clearTimeout(timer)
    },
  }
}
