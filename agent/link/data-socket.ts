import type { KeyObject } from 'node:crypto'
import { TLSSocket } from 'node:tls'
import { type RawData, WebSocket } from 'ws'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { BrimError } from '../../core/kit/base/errors.ts'
import { serverKeyOf } from '../../core/kit/base/tls-pin.ts'
import { maxFrameBytes } from '../../core/wire/protocol/frame.ts'
import { connectionLost } from './link-errors.ts'

const handshakeTimeoutMs = 10_000
/**
 * The connection is given up after this long without a sign of life from the bridge. It is longer than the 15 s between the
 * bridge's own pings: a bridge with more frames than it can compute stops reading the device's pings, but sends its own.
 */
const heartbeatMs = 20_000
/** Time for the bridge to complete the close handshake. */
const closeTimeoutMs = 1_000

export interface DataSocketOptions {
  readonly url: string
  /** Bearer token; absent: the bridge does not require one. */
  readonly token?: string | undefined
  /** A socket that is connected already; absent: the WebSocket opens one. */
  readonly socket?: TLSSocket | undefined
  readonly clock: Clock
  readonly onOpen: () => void
  /** Called for every message, ping and pong of the bridge, before `onMessage`. */
  readonly onSignOfLife: () => void
  readonly onMessage: (bytes: Buffer, isBinary: boolean) => void
  /** @param rttS from the ping to its pong */
  readonly onRoundTrip: (rttS: number) => void
}

/** A WebSocket to a bridge, with pings both ways. */
export class DataSocket {
  /** Resolves with the reason when the socket has closed. */
  readonly closed: Promise<BrimError>
  readonly #options: DataSocketOptions
  readonly #socket: WebSocket
  readonly #ended = new AbortController()
  #sentMs: number
  #pingedMs: number | undefined
  #isAlive = true
  #failure: Error | undefined
  #peerKey: KeyObject | undefined

  constructor(options: DataSocketOptions) {
    const { url, token, socket, clock, onOpen } = options
    this.#options = options
    this.#sentMs = clock.nowMs()
    this.#socket = new WebSocket(url, {
      perMessageDeflate: false,
      maxPayload: maxFrameBytes,
      handshakeTimeout: handshakeTimeoutMs,
      ...(socket ? { createConnection: () => socket } : {}),
      ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
    })
    this.#socket.binaryType = 'nodebuffer'
    this.#socket.once('upgrade', ({ socket: connected }) => {
      if (connected instanceof TLSSocket) this.#peerKey = serverKeyOf(connected)
    })
    this.#socket.once('open', onOpen)
    this.#socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary))
    this.#socket.on('ping', () => this.#onSignOfLife())
    this.#socket.on('pong', () => this.#onPong())
    this.#socket.on('error', (error) => {
      this.#failure = error
    })
    this.closed = new Promise((resolve) => {
      this.#socket.once('close', (code, reason) => {
        const error = connectionLost(code, reason.toString(), this.#failure)
        this.#ended.abort(error)
        resolve(error)
      })
    })
  }

  /** Aborted, with the reason, when the socket has closed. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** Of the bridge's TLS certificate; undefined: the connection is not encrypted, or not made yet. */
  get peerKey(): KeyObject | undefined {
    return this.#peerKey
  }

  /** When the device last sent anything but a ping, by its clock. */
  get sentMs(): number {
    return this.#sentMs
  }

  /** Pings until the socket closes, and closes it when the bridge shows no sign of life. */
  async keepAlive(): Promise<void> {
    while (!this.ended.aborted) {
      if (!this.#isAlive) return this.giveUp()
      this.#isAlive = false
      this.ping()
      await this.#options.clock.sleep(heartbeatMs, this.ended).catch(() => {})
    }
  }

  ping(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return
    this.#pingedMs ??= this.#options.clock.nowMs()
    this.#socket.ping()
  }

  /** @returns bytes on the wire; 0 while the socket is closing: its end will fail everything that waits */
  send(data: Uint8Array | string): number {
    if (this.#socket.readyState !== WebSocket.OPEN) return 0
    this.#socket.send(data)
    this.#sentMs = this.#options.clock.nowMs()
    return webSocketBytes(typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength, true)
  }

  /** Closes a socket whose bridge does not respond. */
  giveUp(): void {
    this.#failure = new Error('the bridge does not respond')
    this.terminate()
  }

  terminate(): void {
    this.#socket.terminate()
  }

  close(): void {
    this.#socket.close(1000)
    this.#options.clock.sleep(closeTimeoutMs, this.ended).then(
      () => this.terminate(),
      () => {},
    )
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    this.#onSignOfLife()
    if (!(data instanceof Buffer)) throw new Error('binaryType is nodebuffer')
    this.#options.onMessage(data, isBinary)
  }

  #onPong(): void {
    this.#onSignOfLife()
    if (this.#pingedMs !== undefined) this.#options.onRoundTrip((this.#options.clock.nowMs() - this.#pingedMs) / 1_000)
    this.#pingedMs = undefined
  }

  #onSignOfLife(): void {
    this.#isAlive = true
    this.#options.onSignOfLife()
  }
}

/**
 * Bytes of one unfragmented WebSocket message on the socket: RFC 6455 §5.2 header (and mask, which only a client
 * sends) and payload.
 */
export function webSocketBytes(payloadBytes: number, masked: boolean): number {
  const lengthBytes = payloadBytes < 126 ? 0 : payloadBytes < 65_536 ? 2 : 8
  return 2 + lengthBytes + (masked ? 4 : 0) + payloadBytes
}
