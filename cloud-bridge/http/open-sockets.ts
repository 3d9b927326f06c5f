import type { Server, Socket } from 'node:net'

/** The open sockets of a server, also those in a TLS handshake and those that were upgraded. */
export function openSockets(server: Server): ReadonlySet<Socket> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return sockets
}
