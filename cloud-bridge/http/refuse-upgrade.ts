import type { Duplex } from 'node:stream'

/** Destroys the socket once the refusal is sent: nothing reads from it, so its end would go unnoticed. */
export function refuseUpgrade(
  socket: Duplex,
  status: '400 Bad Request' | '401 Unauthorized' | '403 Forbidden' | '404 Not Found',
): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)
}
