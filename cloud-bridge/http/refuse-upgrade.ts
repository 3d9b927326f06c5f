import type { Duplex } from 'node:stream'

/** Nobody reads from the socket any more, so its peer's leaving would go unseen: it ends once the refusal is sent. */
export function refuseUpgrade(socket: Duplex, status: '401 Unauthorized' | '403 Forbidden' | '404 Not Found'): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)
}
