import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Aedes } from 'aedes'
import type { TestBroker } from './broker.ts'

/** A broker without access rules: every client may publish anything, as at one that an attacker runs or has broken into. */
export async function startOpenBroker(): Promise<Pick<TestBroker, 'url'> & AsyncDisposable> {
  const broker = await Aedes.createBroker()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    broker.handle(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      await new Promise<void>((done) => broker.close(() => done()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
