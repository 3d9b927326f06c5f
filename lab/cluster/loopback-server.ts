import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'

/** A server on a free loopback port; disposing it ends its connections. */
export async function onLoopback(server: Server): Promise<{ readonly port: number } & AsyncDisposable> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((done) => server.close(done))
    },
  }
}
