import { connect, createServer, type Socket } from 'node:net'
import { onLoopback } from './loopback-server.ts'

/** A TCP load balancer without health checks: each connection goes to the next of these loopback ports that accepts it. */
export function startBalancer(ports: readonly number[]): Promise<{ readonly port: number } & AsyncDisposable> {
  let next = 0
  function connectNext(near: Socket, attempts: number): void {
    const far = connect(ports[next++ % ports.length]!, '127.0.0.1')
    let isConnected = false
    far.once('connect', () => {
      isConnected = true
      near.pipe(far).pipe(near)
    })
    far.on('error', () => {})
    far.once('close', () => {
      if (isConnected || near.destroyed || attempts <= 1) near.destroy()
      else connectNext(near, attempts - 1)
    })
    near.once('close', () => far.destroy())
  }
  const server = createServer((near) => {
    near.on('error', () => {})
    connectNext(near, ports.length)
  })
  return onLoopback(server)
}
