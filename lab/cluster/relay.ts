import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A connection through the relay, with every byte that crossed it, per direction, as it was on the wire. */
export interface RelayedConnection {
  readonly up: Buffer[]
  readonly down: Buffer[]
  readonly isOpen: boolean
  cut(): void
  /** Takes nothing any more and says nothing, as when a machine or a network hangs: both ways, or one of them. */
  stall(way?: 'up' | 'down'): void
  /** These bytes come down before the next ones. */
  inject(noise: Uint8Array): void
  /** What comes down next is noise of the same length. */
  garble(): void
}

/** A TCP relay on a free loopback port: the same faults for all connections that stand. */
export interface Relay extends AsyncDisposable, Pick<RelayedConnection, 'cut' | 'stall' | 'garble'> {
  readonly port: number
  /** Where new connections lead; set it to move the other end. */
  target: number
  /** Of all times, the oldest first. */
  readonly connections: readonly RelayedConnection[]
  bytes(): { up: number; down: number }
}

export async function startRelay(target: number): Promise<Relay> {
  const connections: RelayedConnection[] = []
  const open = () => connections.filter(({ isOpen }) => isOpen)
  const server = createServer((near) => {
    connections.push(relayed(near, connect(relay.target, '127.0.0.1')))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sum = (way: 'up' | 'down') => connections.reduce((total, connection) => total + bytesOf(connection[way]), 0)
  const relay: Relay = {
    port: (server.address() as AddressInfo).port,
    target,
    connections,
    bytes: () => ({ up: sum('up'), down: sum('down') }),
    cut() {
      for (const connection of open()) connection.cut()
    },
    stall(way) {
      for (const connection of open()) connection.stall(way)
    },
    garble() {
      for (const connection of open()) connection.garble()
    },
    async [Symbol.asyncDispose]() {
      relay.cut()
      await new Promise((done) => server.close(done))
    },
  }
  return relay
}

function relayed(near: Socket, far: Socket): RelayedConnection {
  const [up, down]: [Buffer[], Buffer[]] = [[], []]
  let isOpen = true
  let garbled = false
  let noise: Uint8Array | undefined
  const cut = () => {
    isOpen = false
    near.destroy()
    far.destroy()
  }
  for (const [from, to, into] of [
    [near, far, up],
    [far, near, down],
  ] as const) {
    from.setNoDelay(true)
    from.on('data', (bytes) => {
      into.push(Buffer.from(bytes))
      if (into === down && noise) to.write(noise)
      if (into === down) noise = undefined
      to.write(into === down && garbled ? Buffer.alloc(bytes.length, 0xff) : bytes)
      if (into === down) garbled = false
    })
    from.on('error', () => {})
    from.on('close', cut)
  }
  return {
    up,
    down,
    get isOpen() {
      return isOpen
    },
    cut,
    stall(way) {
      if (way !== 'down') near.pause()
      if (way !== 'up') far.pause()
    },
    inject(bytes) {
      noise = bytes
    },
    garble() {
      garbled = true
    },
  }
}

const bytesOf = (buffers: readonly Buffer[]) => buffers.reduce((total, buffer) => total + buffer.length, 0)

/** The same address by way of the relay. */
export function through(relay: Relay, url: string): string {
  return url.replace(/:\d+(?=\/|$)/, `:${relay.port}`)
}

export const portOf = (url: string): number => Number(new URL(url).port)
