import type { Duplex } from 'node:stream'

/** Destroys the socket once the refusal is sent: nothing reads from it, so its end would go unnoticed. */
export function refuseUpgrade(socket: Duplex, status: `${number} ${string}`): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)
}
