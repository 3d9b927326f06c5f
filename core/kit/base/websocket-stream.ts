import { Duplex } from 'node:stream'
import { WebSocket } from 'ws'

/** Closed in order (RFC 6455 §7.4.1). */
const orderly = [1000, 1001, 1005]

/**
 * The bytes of a WebSocket's messages as a stream. What is written together is one message: MQTT writes a packet in several
 * pieces.
 */
export class WebSocketStream extends Duplex {
  readonly #socket: WebSocket

  constructor(socket: WebSocket) {
    super({ allowHalfOpen: false })
    this.#socket = socket
    socket.on('message', (data) => {
      if (!this.push(data)) socket.pause()
    })
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', (code) => {
      if (orderly.includes(code)) this.push(null)
      else this.destroy()
    })
  }

  override _read(): void {
    if (this.#socket.isPaused) this.#socket.resume()
  }

  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error) => void): void {
    this.#send(chunk, done)
  }

  override _writev(chunks: { chunk: Uint8Array }[], done: (error?: Error) => void): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)), done)
  }

  override _final(done: () => void): void {
    this.#socket.close(1000)
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.terminate()
    done(error)
  }

  #send(bytes: Uint8Array, done: (error?: Error) => void): void {
    const socket = this.#socket
    if (socket.readyState === WebSocket.CONNECTING) socket.once('open', () => socket.send(bytes, done))
    else socket.send(bytes, done)
  }
}
