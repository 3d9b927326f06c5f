import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { FakeClock } from './fake-clock.ts'

export interface SlowLink extends AsyncDisposable {
  readonly port: number
  /** Bytes from the device. */
  readonly bytesUp: number
}

/** A TCP relay with a rate per direction on the test's clock, which it advances for each byte that it forwards. */
export async function startSlowLink(
  target: number,
  rates: { upBytesPerS: number; downBytesPerS: number },
  clock: FakeClock,
): Promise<SlowLink> {
  const sockets = new Set<Socket>()
  let forwarding = Promise.resolve()
  let bytesUp = 0
  const pipe = (from: Socket, to: Socket, bytesPerS: number, onBytes: (count: number) => void) => {
    sockets.add(from)
    from.setNoDelay(true)
    from.on('data', (bytes) => {
      onBytes(bytes.length)
      forwarding = forwarding.then(async () => {
        await clock.advance((bytes.length / bytesPerS) * 1_000)
        to.write(bytes)
      })
    })
    from.on('error', () => {})
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
  }
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1')
    pipe(near, far, rates.upBytesPerS, (count) => {
      bytesUp += count
    })
    pipe(far, near, rates.downBytesPerS, () => {})
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get bytesUp() {
      return bytesUp
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((done) => server.close(done))
    },
  }
}
