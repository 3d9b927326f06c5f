import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { maxFrameBytes } from '../../core/protocol/frame.ts'
import { closeCodes } from '../../core/protocol/messages.ts'
import { type Connection, type ConnectionOptions, serveConnection } from './connection.ts'

export const dataPath = '/v1/data'

export interface DataPlane {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Ends every connection; resolves when their sessions are gone. */
  close(): Promise<void>
}

/** How long a peer may take to answer our close before it is cut off. */
const closeTimeoutMs = 1_000

/** WebSocket connections, one per device: who connects again replaces the connection that it had. */
export function createDataPlane(options: Omit<ConnectionOptions, 'onHello'>): DataPlane {
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
      server.handleUpgrade(request, socket, head, (webSocket) => {
        const connection = serveConnection(webSocket, {
          ...options,
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
