import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A TCP relay on a free loopback port that keeps every byte, per direction, as it was on the wire. */
export interface Relay extends AsyncDisposable {
  readonly port: number
  /** Where new connections lead; set it to move the other end. */
  target: number
  /** One entry a connection. */
  readonly connections: { readonly up: Buffer[]; readonly down: Buffer[] }[]
  bytes(): { up: number; down: number }
  /** Cuts all connections that stand. */
  cut(): void
  /** Takes nothing any more from either side, and says nothing: as when the other machine hangs. */
  stall(): void
  /** What comes down next is noise. */
  garble(): void
}

export async function startRelay(target: number): Promise<Relay> {
  const connections: { up: Buffer[]; down: Buffer[] }[] = []
  const sockets = new Set<Socket>()
  let garbled = false
  const server = createServer((near) => {
    const record = { up: [] as Buffer[], down: [] as Buffer[] }
    connections.push(record)
    const far = connect(relay.target, '127.0.0.1')
    pipe(near, far, record.up)
    pipe(far, near, record.down, () => {
      const now = garbled
      garbled = false
      return now
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  function pipe(from: Socket, to: Socket, into: Buffer[], isNoise = () => false): void {
    sockets.add(from)
    from.setNoDelay(true)
    from.on('data', (bytes) => {
      into.push(Buffer.from(bytes))
      to.write(isNoise() ? Buffer.alloc(bytes.length, 0xff) : bytes)
    })
    from.on('error', () => {})
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
  }

  const sum = (buffers: Buffer[]) => buffers.reduce((total, buffer) => total + buffer.length, 0)
  const relay: Relay = {
    port: (server.address() as AddressInfo).port,
    target,
    connections,
    bytes: () => ({
      up: connections.reduce((total, { up }) => total + sum(up), 0),
      down: connections.reduce((total, { down }) => total + sum(down), 0),
    }),
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    stall() {
      for (const socket of sockets) socket.pause()
    },
    garble() {
      garbled = true
    },
    async [Symbol.asyncDispose]() {
      relay.cut()
      await new Promise((done) => server.close(done))
    },
  }
  return relay
}

/** The same address by way of the relay. */
export function through(relay: Relay, url: string): string {
  return url.replace(/:\d+(?=\/|$)/, `:${relay.port}`)
}

export const portOf = (url: string): number => Number(new URL(url).port)
