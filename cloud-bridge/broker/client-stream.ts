import { Duplex } from 'node:stream'
import type { Client } from 'aedes'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { BridgeLimits } from '../limits.ts'
import { ClientRates, type RateLimits } from './client-rates.ts'
import { PacketGauge, type PacketHeader, packetTypes } from './packet-gauge.ts'

export interface ClientStreamOptions {
  readonly limits: RateLimits & Pick<BridgeLimits, 'mqttPacketBytes' | 'mqttUnreadBytes'>
  /** The client has sent its CONNECT packet. */
  readonly onConnect: () => void
  /** The client exceeds a rate, and is not read for this long. */
  readonly onSlowed: (waitMs: number) => void
  readonly clock: Clock
}

/** Of a packet that publishes nothing, such as CONNECT. */
const maxOtherPacketBytes = 4_096
/** Shorter waits would cost more timers than they save packets. */
const minWaitMs = 50
/** Packets that are written within a few turns of the event loop fit into it. */
const writeBufferBytes = 2 ** 20
/** aedes answers what arrived together in this many turns of the event loop: what it writes is then sent at once. */
const turnsUntilSent = 2

/**
 * A client's connection, as the MQTT broker sees it. It limits what the broker itself does not: the size of packets, their rate,
 * and the bytes that a client has not read. A client that sends too fast is read later; nothing that it sent is lost.
 * A write never waits for the client, because aedes would hold the messages of all other clients meanwhile.
 */
export class ClientStream extends Duplex {
  /** The socket, or what MQTT over WebSocket reads and writes. */
  readonly transport: Duplex
  /** Of the client. */
  readonly address: string | undefined
  readonly #options: ClientStreamOptions
  readonly #gauge = new PacketGauge()
  readonly #rates: ClientRates
  #stopping: AbortController | undefined
  /** Of a chunk that was read: what may not be passed on yet. */
  #rest: Uint8Array | undefined
  #isWanted = false
  #isWaiting = false
  /** What aedes has written, and the transport has not been given. */
  #unsent: Uint8Array[] = []

  constructor(transport: Duplex, address: string | undefined, options: ClientStreamOptions) {
    super({ allowHalfOpen: false, writableHighWaterMark: writeBufferBytes })
    this.transport = transport
    this.address = address
    this.#options = options
    this.#rates = new ClientRates(options.limits, options.clock.nowMs())
    transport.on('readable', () => this.#forward())
    transport.on('end', () => this.#forward())
    transport.on('error', (error) => this.destroy(error))
    transport.on('close', () => {
      // Of a client that ended its connection in order, what was read is still passed on; not if it sent too fast.
      if (!transport.readableEnded || this.#isWaiting) this.destroy()
    })
  }

  onConnect(): void {
    this.#options.onConnect()
  }

  override _read(): void {
    this.#isWanted = true
    this.#forward()
  }

  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    this.#enqueue([{ chunk }])
    done()
  }

  override _writev(chunks: { chunk: Uint8Array }[], done: () => void): void {
    this.#enqueue(chunks)
    done()
  }

  override _final(done: () => void): void {
    this.#send()
    this.transport.end(done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#stopping?.abort(connectionEnded)
    // A refusal is followed by the end of the connection.
    this.#send()
    this.transport.destroy()
    done(error)
  }

  #enqueue(chunks: readonly { readonly chunk: Uint8Array }[]): void {
    if (this.#unsent.length === 0) afterTurns(turnsUntilSent, () => this.#send())
    for (const { chunk } of chunks) this.#unsent.push(chunk)
  }

  #send(): void {
    const chunks = this.#unsent.splice(0)
    const { transport } = this
    if (chunks.length === 0 || transport.destroyed) return
    transport.cork()
    for (const chunk of chunks) transport.write(chunk)
    transport.uncork()
    const { mqttUnreadBytes } = this.#options.limits
    if (transport.writableLength > mqttUnreadBytes)
      this.destroy(
        new BrimError('QUOTA_EXCEEDED', `${transport.writableLength} bytes are unread; the limit is ${mqttUnreadBytes}`, {
          hint: 'the client must read what it subscribes to; or raise --limit mqttUnreadBytes=…',
        }),
      )
  }

  /** Passes on what has been received, as far as the broker wants it and the client's rate allows. */
  #forward(): void {
    while (this.#isWanted && !this.#isWaiting && !this.destroyed) {
      const chunk = this.#rest ?? this.#read()
      if (chunk === undefined) {
        if (this.transport.readableEnded || this.transport.destroyed) this.push(null)
        return
      }
      const { end, waitMs } = this.#admit(chunk)
      if (this.destroyed) return
      this.#rest = end < chunk.length ? chunk.subarray(end) : undefined
      this.#isWanted = this.push(chunk.subarray(0, end))
      if (waitMs > 0) void this.#wait(Math.max(waitMs, minWaitMs))
    }
  }

  #read(): Uint8Array | undefined {
    const chunk: unknown = this.transport.read()
    return chunk instanceof Uint8Array ? chunk : undefined
  }

  /** @returns the end of what may be passed on, and ms until more may be */
  #admit(chunk: Uint8Array): { readonly end: number; readonly waitMs: number } {
    let at = 0
    while (at < chunk.length) {
      const { end, packet } = this.#gauge.advance(chunk, at)
      at = end
      if (packet === undefined) continue
      if (this.#refuses(packet)) return { end: 0, waitMs: 0 }
      const waitMs = this.#rates.spend(packet, this.#options.clock.nowMs())
      if (waitMs > 0) return { end, waitMs }
    }
    return { end: at, waitMs: 0 }
  }

  #refuses({ type, bodyBytes }: PacketHeader): boolean {
    const { mqttPacketBytes } = this.#options.limits
    const maxBytes = type === packetTypes.publish ? mqttPacketBytes : Math.min(mqttPacketBytes, maxOtherPacketBytes)
    if (bodyBytes <= maxBytes) return false
    this.destroy(
      new BrimError('REQUEST_INVALID', `an MQTT packet of type ${type} with ${bodyBytes} bytes; the limit is ${maxBytes}`),
    )
    return true
  }

  async #wait(waitMs: number): Promise<void> {
    this.#isWaiting = true
    this.#stopping ??= new AbortController()
    this.#options.onSlowed(waitMs)
    try {
      await this.#options.clock.sleep(waitMs, this.#stopping.signal)
    } catch {
      // The connection has ended.
      return
    }
    this.#isWaiting = false
    this.#forward()
  }
}

/** Without a reason each abort builds an error with its stack. */
const connectionEnded = new Error('the connection has ended')

function afterTurns(turns: number, run: () => void): void {
  setImmediate(turns === 1 ? run : () => afterTurns(turns - 1, run))
}

/** Address of a client; undefined: it is this bridge, or not connected. */
export const clientAddress = ({ conn }: Pick<Client, 'conn'>): string | undefined =>
  conn instanceof ClientStream ? conn.address : undefined
