import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Aedes } from 'aedes'

/** A broker on a free port of loopback. */
export interface ServedBroker extends AsyncDisposable {
  readonly url: string
}

/** A broker without access rules: every client may publish anything, as at one that an attacker runs or has broken into. */
export const startOpenBroker = async (): Promise<ServedBroker> => serveBroker(await Aedes.createBroker())

export async function serveBroker(broker: Aedes): Promise<ServedBroker> {
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
