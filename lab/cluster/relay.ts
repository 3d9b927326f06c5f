import { connect, createServer, type Socket } from 'node:net'
import { onLoopback } from './loopback-server.ts'

/** A connection through the relay, with the bytes that crossed it in each direction. */
export interface RelayedConnection {
  readonly up: Buffer[]
  readonly down: Buffer[]
  /** What an observer of the network sees of them, in order. */
  readonly arrivals: readonly Arrival[]
  readonly isOpen: boolean
  cut(): void
  /** Stops reading in one or both directions, as when a machine or a network hangs. */
  stall(direction?: 'up' | 'down'): void
  /** Sends these bytes down before the next ones. */
  inject(noise: Uint8Array): void
  /** Replaces the next chunk that comes down with noise of the same length. */
  garble(): void
}

/** Bytes that came together. */
export interface Arrival {
  readonly direction: 'up' | 'down'
  readonly atMs: number
  readonly bytes: number
}

/** A TCP relay on a free loopback port; its faults hit all open connections. */
export interface Relay extends AsyncDisposable, Pick<RelayedConnection, 'cut' | 'stall' | 'garble'> {
  readonly port: number
  /** Port that new connections are relayed to. */
  target: number
  /** Open and closed connections, oldest first. */
  readonly connections: readonly RelayedConnection[]
  bytes(): { up: number; down: number }
}

export async function startRelay(target: number): Promise<Relay> {
  const connections: RelayedConnection[] = []
  const open = () => connections.filter(({ isOpen }) => isOpen)
  const server = createServer((near) => {
    connections.push(relayed(near, connect(relay.target, '127.0.0.1')))
  })
  const listening = await onLoopback(server)
  const sum = (direction: 'up' | 'down') => connections.reduce((total, connection) => total + bytesOf(connection[direction]), 0)
  const relay: Relay = {
    ...listening,
    target,
    connections,
    bytes: () => ({ up: sum('up'), down: sum('down') }),
    cut() {
      for (const connection of open()) connection.cut()
    },
    stall(direction) {
      for (const connection of open()) connection.stall(direction)
    },
    garble() {
      for (const connection of open()) connection.garble()
    },
  }
  return relay
}

function relayed(near: Socket, far: Socket): RelayedConnection {
  const [up, down]: [Buffer[], Buffer[]] = [[], []]
  const arrivals: Arrival[] = []
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
      arrivals.push({ direction: into === up ? 'up' : 'down', atMs: performance.now(), bytes: bytes.length })
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
    arrivals,
    get isOpen() {
      return isOpen
    },
    cut,
    stall(direction) {
      if (direction !== 'down') near.pause()
      if (direction !== 'up') far.pause()
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

/** The URL with the relay's port. */
export function through(relay: Relay, url: string): string {
  return url.replace(/:\d+(?=\/|$)/, `:${relay.port}`)
}

export const portOf = (url: string): number => Number(new URL(url).port)
